// What a trial shows of one result: is the result of micro-batches that of the whole batch? Plain
// data without LibTorch.
#pragma once

#include <string>

namespace pipec {

struct ResultCheck {
  enum class Equal { Yes, No, NotTried };
  Equal equal = Equal::NotTried;
  /// No: where, and both values, as "at [3,1] 0.5 for the whole batch, 0.25 for micro-batches".
  /// NotTried: why.
  std::string reason;

  bool operator==(const ResultCheck &) const = default;
};

} // namespace pipec
