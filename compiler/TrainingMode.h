// Modules that run in training mode: a model saved without eval().
#pragma once

#include "ir/SourceMode.h"
#include "ir/TrainingModules.h"
#include "ir/support/Error.h"

namespace pipec {

/// Those that the method of the file reaches, with the flags that `mode` sets, see
/// ir/TrainingModules.h. Errors: those of loadSource; Unreadable if LibTorch cannot read the code.
llvm::Expected<TrainingModules>
trainingModulesOf(const std::string &path, const std::string &method, const SourceMode &mode);

} // namespace pipec
