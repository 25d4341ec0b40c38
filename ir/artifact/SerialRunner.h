// Runs the stages of an artifact one after the other on one micro-batch: the simplest execution of
// a plan.
#pragma once

#include "ir/artifact/StageModule.h"

#include <map>

namespace pipec {

/// Loads the stages anew, so state starts as the files have it. One thread at a time, or several if
/// no stage writes state.
class SerialRunner {
public:
  struct Result {
    std::vector<c10::IValue> leaves;
    std::vector<c10::IValue> sent; // on each channel; None on weight channels
  };

  /// `directory` holds the stage files. Output that the model prints is dropped. `instead`: tensors
  /// that are known to have the bytes of weights in the files, by name, which are then not read.
  /// Errors: those of StageModule::load, naming the stage.
  static llvm::Expected<SerialRunner> load(const std::string &directory, const Plan &plan,
                                           const std::map<std::string, at::Tensor> &instead = {});

  /// True if any stage may use it.
  bool mayUseGenerator() const;

  /// Takes one value per input of the signature and returns one per output leaf. Runs without
  /// gradients and with the graph optimiser off, and restores both settings of the calling thread.
  /// Errors: those of the failing stage, naming it.
  llvm::Expected<Result> run(std::vector<c10::IValue> inputs);

private:
  const Plan *plan_ = nullptr;
  std::vector<StageModule> stages_;
};

} // namespace pipec
