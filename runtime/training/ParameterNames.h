// Parameters that options name by patterns.
#pragma once

#include "ir/support/Error.h"
#include "runtime/TrainingOptions.h"

#include <string>
#include <vector>

namespace pipec {

/// All names of each parameter.
using ParameterNames = std::vector<std::vector<std::string>>;

/// Which parameters have a name that the pattern matches. In a pattern * stands for any characters,
/// as in a shell. `option`: for messages. Errors: Usage for a pattern that matches none.
llvm::Expected<std::vector<bool>> matching(llvm::StringRef pattern, llvm::StringRef option,
                                           const ParameterNames &names);

/// Which parameters are not trained: those that any of the patterns matches. Errors: as matching().
llvm::Expected<std::vector<bool>> frozen(const std::vector<std::string> &patterns,
                                         const ParameterNames &names);

/// Errors: Usage if the options ask for updates of weights and no parameter is left to train.
llvm::Error checkAnyTrained(const TrainingOptions &options, const std::vector<bool> &isFrozen);

} // namespace pipec
