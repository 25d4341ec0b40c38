// Which other orders of a program's operators compute the same results.
#pragma once

#include "passes/analysis/CutLegality.h"

#include <string>

namespace pipec {

/// The conditions for any order of the top level:
/// - operators come after the makers of the values that they read,
/// - a write into memory stays after its earlier readers and before its later ones,
/// - random operators keep their order, and so their numbers,
/// - no operator crosses one that prints, raises an error, or has unknown effects.
class OperatorOrder {
public:
  OperatorOrder(const TopLevel &top, const CutLegality &legality);

  /// Pairs of operators whose first must stay before the second, beside pairs of maker and reader.
  const std::vector<std::pair<uint32_t, uint32_t>> &mustFollow() const { return mustFollow_; }

  /// The reason why this order of some of the operators, each at most once, violates a condition;
  /// empty if it does not.
  std::string why(const std::vector<size_t> &order) const;

private:
  std::string name(uint32_t index) const;

  const TopLevel &top_;
  std::vector<std::pair<uint32_t, uint32_t>> mustFollow_;
  size_t writes_; // the first `writes_` pairs are of writes
};

} // namespace pipec
