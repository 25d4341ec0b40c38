// Which other orders of its operators compute the same as the program.
#pragma once

#include "passes/analysis/CutLegality.h"

#include <string>

namespace pipec {

/// What must hold of any order of the top level:
/// - operators read what was made before them,
/// - what no cut may separate (see CutLegality) stays as it stands, with nothing moved in between:
///   the writes into memory are there, so its readers elsewhere find what they would have found,
/// - random operators keep their order, and so their numbers,
/// - nothing moves across an operator that prints, raises an error, or does what nobody knows.
class OperatorOrder {
public:
  OperatorOrder(const TopLevel &top, const CutLegality &legality);

  /// Of each operator the number of what it stays together with; ascending.
  const std::vector<uint32_t> &groupOf() const { return groupOf_; }
  /// Pairs of operators, the first stays before the second; beside who reads whose result.
  const std::vector<std::pair<uint32_t, uint32_t>> &mustFollow() const { return mustFollow_; }

  /// Why this order of some of the operators, each at most once, is not one of those; empty: it is.
  std::string why(const std::vector<size_t> &order) const;

private:
  std::string name(uint32_t index) const;

  const TopLevel &top_;
  std::vector<uint32_t> groupOf_;
  std::vector<std::pair<uint32_t, uint32_t>> mustFollow_;
};

} // namespace pipec
