// The settings of the optimizer for each parameter.
#pragma once

#include "runtime/TrainingOptions.h"
#include "runtime/training/Optimizer.h"
#include "runtime/training/OptimizerText.h"
#include "runtime/training/ParameterNames.h"

namespace pipec {

struct OptimizerSettings {
  std::optional<NamedSettings> common; // of parameters without a group; absent: no optimizer
  std::vector<NamedSettings> each;     // one per parameter; empty: no optimizer
  OptimizerFactory own;                // of the user, in place of those of the table
};

/// A tensor with the optimizer of `of`, the settings of the parameter with this name. Errors:
/// Usage if the user's factory makes none, or if elements of the tensor share memory.
llvm::Expected<OwnedParameter> ownedParameter(const OptimizerSettings &settings,
                                              const NamedSettings &of, const std::string &name,
                                              at::Tensor tensor);

/// Reads the optimizer and its groups. Errors: those of parseOptimizer; Usage for two optimizers,
/// for groups without an optimizer of the table, and for a group without a parameter: its pattern
/// matches none, or earlier groups have all that it matches.
llvm::Expected<OptimizerSettings> optimizerSettings(const TrainingOptions &options,
                                                    const ParameterNames &names);

} // namespace pipec
