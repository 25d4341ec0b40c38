// Runs the stages of an artifact one after the other on one micro-batch: the simplest execution of
// a plan.
#pragma once

#include "ir/artifact/StageModule.h"

namespace pipec {

/// Loads the stages anew, so that state starts as the files have it. One thread at a time.
class SerialRunner {
public:
  /// directory: of the stage files. Errors: those of StageModule::load, naming the stage.
  static llvm::Expected<SerialRunner> load(const std::string &directory, const Plan &plan);

  /// One value per input of the signature in, one per output leaf out. Runs without gradients and
  /// with the graph optimiser off; both settings of the calling thread are restored. Errors: the
  /// failing stage's, naming it.
  llvm::Expected<std::vector<c10::IValue>> run(std::vector<c10::IValue> inputs);

  /// What the last run sent on channel `index`; None before any run.
  const c10::IValue &sent(size_t channel) const { return channels_[channel]; }

private:
  const Plan *plan_ = nullptr;
  std::vector<StageModule> stages_;
  std::vector<c10::IValue> channels_;
};

} // namespace pipec
