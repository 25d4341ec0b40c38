// The settings of the optimizer for each parameter.
#pragma once

#include "runtime/TrainingOptions.h"
#include "runtime/training/OptimizerText.h"
#include "runtime/training/ParameterNames.h"

namespace pipec {

struct OptimizerSettings {
  std::optional<NamedSettings> common; // of parameters without a group; absent: no optimizer
  std::vector<NamedSettings> each;     // one per parameter; empty: no optimizer
};

/// Reads the optimizer and its groups. Errors: those of parseOptimizer; Usage for groups without an
/// optimizer, and for a group without a parameter: its pattern matches none, or earlier groups have
/// all that it matches.
llvm::Expected<OptimizerSettings> optimizerSettings(const TrainingOptions &options,
                                                    const ParameterNames &names);

} // namespace pipec
