// Trains the stages of an artifact one after the other on one micro-batch: forwards from the first
// to the last, backwards from the last to the first. The simplest training of a plan.
#pragma once

#include "ir/artifact/StageModule.h"
#include "ir/autograd/StageTape.h"

namespace pipec {

/// The results of one micro-batch.
struct TrainedMicroBatch {
  std::vector<c10::IValue> leaves;
  std::vector<c10::IValue> sent;                      // on each channel; None on weight channels
  std::vector<std::vector<ValueGradients>> gradients; // per stage and attribute, as StageGradients
  std::vector<std::string>
      whyWhole; // per stage that was to be split: why it was not; empty: it was
};

/// Loads the stages anew, so that state starts as the files have it. One thread at a time.
class SerialTrainer {
public:
  /// directory: of the stage files. What the model prints is left out. Errors: those of
  /// StageModule::load, naming the stage.
  static llvm::Expected<SerialTrainer> load(const std::string &directory, const Plan &plan);

  /// One value per input of the signature. The way back starts at output leaf `loss`, a number,
  /// with `scale`. Stages of `split` walk back to their inputs, and to their weights when all
  /// stages are through; a stage that cannot says why and walks back whole. Grad mode and optimiser
  /// flag are the calling thread's. Errors: the failing stage's, naming it.
  llvm::Expected<TrainedMicroBatch> run(const std::vector<c10::IValue> &inputs, size_t loss,
                                        const at::Tensor &scale, const std::vector<bool> &split);

  const c10::IValue &attribute(size_t stage, size_t index) const {
    return stages_[stage].attribute(index);
  }

private:
  llvm::Expected<StageTape> forward(size_t stage, const std::vector<c10::IValue> &inputs,
                                    WeightUses uses, TrainedMicroBatch &result);

  const Plan *plan_ = nullptr;
  std::vector<StageModule> stages_;
};

} // namespace pipec
