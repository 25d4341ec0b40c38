// What a trial shows of one result: whether the merged result of micro-batches equals that of the
// whole batch. Plain data without LibTorch.
#pragma once

#include <string>

namespace pipec {

struct ResultCheck {
  enum class Equal { Yes, No, NotTried };
  Equal equal = Equal::NotTried;
  /// No: the place and both values, as "at [3,1] 0.5 for the whole batch, 0.25 for micro-batches".
  /// NotTried: the reason.
  std::string reason;
  /// Of a list with a value per micro-batch: the rule whose merged result equals that of the whole
  /// batch in the trial, as --merge takes it. Empty: none does, or the values do not show it.
  std::string fits = "";

  bool operator==(const ResultCheck &) const = default;
};

} // namespace pipec
