// Runs the stages of an artifact one after the other on one micro-batch: the simplest execution of
// a plan.
#pragma once

#include "ir/artifact/SerialStages.h"

namespace pipec {

/// One thread at a time, or several if no stage writes state.
class SerialRunner {
public:
  struct Result {
    std::vector<c10::IValue> leaves;
    std::vector<c10::IValue> sent; // on each channel; None on weight channels
  };

  /// `stages`: those of SerialStages; `plan` must outlive it.
  SerialRunner(const Plan &plan, std::vector<StageModule> stages)
      : plan_(&plan), stages_(std::move(stages)) {}

  /// Takes one value per input of the signature and returns one per output leaf. Runs without
  /// gradients and with the graph optimiser off, and restores both settings of the calling thread.
  /// Errors: those of the failing stage, naming it.
  llvm::Expected<Result> run(std::vector<c10::IValue> inputs);

private:
  const Plan *plan_;
  std::vector<StageModule> stages_;
};

} // namespace pipec
