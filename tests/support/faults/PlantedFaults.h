// Compiler faults to order, in test builds only: each must be caught, by the compile's own proof or
// by a test that compares results.
#pragma once

#include "ir/Model.h"

namespace pipec {

/// Breaks the first place that can break as the fault says; false when there is none. Errors: Usage
/// for a name that is no fault of such a model, naming all.
llvm::Expected<bool> plantFault(llvm::StringRef name, Model &model);
llvm::Expected<bool> plantFault(llvm::StringRef name, StagedModel &model);

/// Whether it is a fault of the disk: the stages are right, and a file of theirs is not.
bool isFaultOfFiles(llvm::StringRef name);
/// Breaks a stage file in `directory`, for such a name; false when there is none. Errors: IO.
llvm::Expected<bool> plantFault(llvm::StringRef name, const std::string &directory);

} // namespace pipec
