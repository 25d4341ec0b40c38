// Checks and copies that bring the values of a checkpoint into a model.
#pragma once

#include "ir/checkpoint/CheckpointValues.h"

#include <string>
#include <vector>

namespace pipec {

/// Errors: Usage naming the tensor, for another shape or dtype than that of the model.
llvm::Error checkFits(const SavedValue &saved, const at::Tensor &model);
/// The same for the optimizer's state of a parameter. Errors: BadArtifact.
llvm::Error checkStateFits(const SavedValue &saved, const at::Tensor &parameter);
/// Errors: BadArtifact naming a value that the declared type cannot have. type: null if unknown.
llvm::Error checkDeclared(const SavedValue &saved, const c10::TypePtr &type);
/// Errors: Usage for a parameter of the checkpoint that the model does not have. names: all that
/// the model has.
llvm::Error checkNoneIsLeft(const CheckpointValues &values, const std::vector<std::string> &names);
llvm::Error missingInCheckpoint(const std::string &name);

/// The value to use for an attribute that held `current`: tensors of the same layout are copied
/// into their own memory, which others may share; others go to the device of its tensors. Errors:
/// BadArtifact for a value that `type` cannot have. Throws LibTorch's exceptions.
llvm::Expected<c10::IValue> restored(const c10::IValue &saved, const c10::IValue &current,
                                     const c10::TypePtr &type);

} // namespace pipec
