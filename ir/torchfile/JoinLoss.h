// Joins a loss from a separate file to the model.
#pragma once

#include "ir/TrainingModules.h"
#include "ir/support/Error.h"

#include <torch/csrc/jit/api/module.h>

#include <string>

namespace pipec {

/// The method of a joined model: its arguments are those of the model and the loss's further ones
/// (targets), its result is the loss's.
inline constexpr const char *kLossMethod = "forward_with_loss";

/// Makes `loss`, whose forward takes the results of `method` and then targets, a submodule of
/// `model` and adds kLossMethod to the model's class. A tuple that `method` returns is taken apart
/// if the loss does not take it as one argument. The submodule is `loss`, or `loss_` where the
/// model has one. Errors: Usage if the loss does not take what the model returns, naming both
/// types.
llvm::Error joinLoss(torch::jit::Module &model, const std::string &method, torch::jit::Module loss);
/// The submodule that joinLoss() adds to this model.
std::string nameOfJoinedLoss(const torch::jit::Module &model);

/// Those of the method, see ir/TrainingModules.h. Of kLossMethod: those of the model's method, and
/// those of the loss, named as its modules are in `model`.
TrainingModules trainingModulesWithLoss(const torch::jit::Module &model, const std::string &method);

} // namespace pipec
