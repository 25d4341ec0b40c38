// How the learning rate changes from step to step.
#pragma once

#include "runtime/training/OptimizerText.h"

#include <optional>

namespace pipec {

/// The factor of the optimizer's learning rate at each step. Kinds: constant; cosine (half a cosine
/// from 1 down to `floor` at `steps`), linear (a line down to `floor` at `steps`), step (times
/// `gamma` after every `every` steps). All begin with `warmup` steps in which the factor rises
/// along a line to 1: (step + 1) / (warmup + 1).
class LearningRates {
public:
  LearningRates() = default; // constant
  /// "cosine,warmup=100,steps=1000". Without `steps`: `runSteps`, the steps of the run. Empty:
  /// constant. Errors: Usage.
  static llvm::Expected<LearningRates> parse(llvm::StringRef text, int64_t runSteps);

  /// step: from 0.
  double factorAt(int64_t step) const;
  /// With all settings, as parse() reads it.
  std::string text() const { return toString(settings_); }

private:
  NamedSettings settings_{"constant", {{"warmup", 0}}};
};

/// The learning rate of an optimizer, step by step.
struct StepRates {
  std::optional<NamedSettings> optimizer; // absent: none, the rate is 0
  LearningRates rates;

  /// The factor of each parameter's learning rate.
  double factorAt(uint64_t step) const { return rates.factorAt(static_cast<int64_t>(step)); }
  /// The learning rate of parameters without a group.
  double at(uint64_t step) const { return optimizer ? (*optimizer)["lr"] * factorAt(step) : 0; }
  /// Replaces the rates. Errors: those of LearningRates::parse.
  llvm::Error set(llvm::StringRef text, int64_t runSteps);
};

} // namespace pipec
