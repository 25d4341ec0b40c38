// Who sees to the obligations that passes recorded.
#pragma once

#include "ir/artifact/Relink.h"

namespace pipec {

/// Every recompute obligation against the stage files as read back: a stage that is said to repeat
/// an operator must hold as many. (That a repeated value is the value of the source is compared
/// line by line: whole numbers are named by what they are computed from.) With `source`, the
/// operators on whole numbers of the normalised source by kind, also the other direction: nothing
/// is repeated that no obligation names. Facts need no look at the stages: verify() of the plan
/// holds them against the inputs that the runtime checks.
/// Errors: BadArtifact naming operator, stage and both numbers.
llvm::Error discharge(const Plan &plan, const std::vector<StageFacts> &stages,
                      const std::map<std::string, int64_t> *source = nullptr);

} // namespace pipec
