// Which other orders of its operators compute the same as the program.
#pragma once

#include "passes/analysis/CutLegality.h"

#include <string>

namespace pipec {

/// What must hold of any order of the top level:
/// - operators read what was made before them,
/// - a write into memory stays behind those who read it before and in front of those who read it
///   after,
/// - random operators keep their order, and so their numbers,
/// - nothing moves across an operator that prints, raises an error, or does what nobody knows.
class OperatorOrder {
public:
  OperatorOrder(const TopLevel &top, const CutLegality &legality);

  /// Pairs of operators, the first stays before the second; beside who reads whose result.
  const std::vector<std::pair<uint32_t, uint32_t>> &mustFollow() const { return mustFollow_; }

  /// Why this order of some of the operators, each at most once, is not one of those; empty: it is.
  std::string why(const std::vector<size_t> &order) const;

private:
  std::string name(uint32_t index) const;

  const TopLevel &top_;
  std::vector<std::pair<uint32_t, uint32_t>> mustFollow_;
  size_t writes_; // the first so many are of writes
};

} // namespace pipec
