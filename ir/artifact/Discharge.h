// Checks the obligations that passes recorded.
#pragma once

#include "ir/artifact/Relink.h"

namespace pipec {

/// Compares every recompute obligation with the stage files as read back: a stage that repeats an
/// operator by an obligation must hold as many copies. (The proof compares the repeated values
/// themselves, because canonical lines name whole numbers by what they are computed from.) `source`
/// counts the operators on whole numbers of the normalised source by kind. If it is given, the
/// other direction is checked too: no operator is repeated without an obligation. Facts need no
/// check of the stages: verify() of the plan compares them with the inputs that the runtime checks.
/// Errors: BadArtifact naming operator, stage and both numbers.
llvm::Error discharge(const Plan &plan, const std::vector<StageFacts> &stages,
                      const std::map<std::string, int64_t> *source = nullptr);

} // namespace pipec
