// Joins a loss from a separate file to the model.
#pragma once

#include "ir/TrainingModules.h"
#include "ir/support/Error.h"

#include <torch/csrc/jit/api/module.h>

#include <optional>
#include <string>

namespace pipec {

/// What joinLoss() made. Names alone do not tell: a model may have a method and a submodule with
/// these names of its own.
struct JoinedLoss {
  std::string method;  // the new one: its arguments are those of the model's method and the loss's
                       // further ones (targets), its result is the loss's
  std::string ofModel; // the model's method, whose results the loss takes
  std::string submodule; // the loss
};

/// A model with or without a joined loss.
struct SourceModule {
  torch::jit::Module module;
  std::optional<JoinedLoss> loss;
};

/// Makes `loss`, whose forward takes the results of `method` and then targets, a submodule of
/// `model` and adds a method to the model's class. A tuple that `method` returns is taken apart if
/// the loss does not take it as one argument. Errors: Usage if the loss does not take what the
/// model returns, naming both types.
llvm::Expected<JoinedLoss> joinLoss(torch::jit::Module &model, const std::string &method,
                                    torch::jit::Module loss);
/// The names that joinLoss() gives in this model: the submodule is `loss`, the method
/// `forward_with_loss`. Where the model has one, the name gets a `_`.
std::string nameOfJoinedLoss(const torch::jit::Module &model);
std::string nameOfJoinedMethod(const torch::jit::Module &model);

/// Those of `method`, see ir/TrainingModules.h. With a joined loss, `method` is the one that
/// joinLoss() made: those of the model's method, and those of the loss, named as its modules are in
/// `model`.
TrainingModules trainingModulesWithLoss(const torch::jit::Module &model, const std::string &method,
                                        const std::optional<JoinedLoss> &loss);

} // namespace pipec
