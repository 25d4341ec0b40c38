// Runs the stages of an artifact one after the other on one micro-batch: the simplest execution of
// a plan.
#pragma once

#include "ir/artifact/StageModule.h"

namespace pipec {

/// Loads the stages anew, so that state starts as the files have it. One thread at a time; several
/// where no stage writes state.
class SerialRunner {
public:
  struct Result {
    std::vector<c10::IValue> leaves;
    std::vector<c10::IValue> sent; // on each channel; None on weight channels
  };

  /// directory: of the stage files. What the model prints is left out. Errors: those of
  /// StageModule::load, naming the stage.
  static llvm::Expected<SerialRunner> load(const std::string &directory, const Plan &plan);

  /// Of any stage.
  bool mayUseGenerator() const;

  /// One value per input of the signature in, one per output leaf out. Runs without gradients and
  /// with the graph optimiser off; both settings of the calling thread are restored. Errors: the
  /// failing stage's, naming it.
  llvm::Expected<Result> run(std::vector<c10::IValue> inputs);

private:
  const Plan *plan_ = nullptr;
  std::vector<StageModule> stages_;
};

} // namespace pipec
