// Modules that run in training mode: a model saved without eval().
#pragma once

#include "ir/TrainingModules.h"
#include "ir/torchfile/SourceCopies.h"

namespace pipec {

/// Those that the method of the source reaches, with the flags that its mode sets, see
/// ir/TrainingModules.h; `path` is its file. Errors: those of SourceCopies::next; Unreadable if
/// LibTorch cannot read the code.
llvm::Expected<TrainingModules> trainingModulesOf(SourceCopies &source, const std::string &path,
                                                  const std::string &method);

} // namespace pipec
