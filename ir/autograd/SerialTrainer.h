// Trains the stages of an artifact one after the other on one micro-batch: forwards from the first
// to the last, backwards from the last to the first. The simplest training of a plan.
#pragma once

#include "ir/artifact/SerialStages.h"
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

/// How the stages are trained.
struct SerialWay {
  std::vector<bool> split;       // per stage: first to the inputs, later to the weights
  std::vector<size_t> recompute; // stages that run again before their backward, ascending
  bool followsFlags = false;     // channels bring back a gradient only if the plan says so
};

/// One thread at a time.
class SerialTrainer {
public:
  /// Reads the stage files in `directory`. Errors: those of SerialStages::load.
  static llvm::Expected<SerialTrainer> load(const std::string &directory, const Plan &plan,
                                            SerialWay way);
  /// `stages`: those of SerialStages; `plan` must outlive it.
  SerialTrainer(const Plan &plan, std::vector<StageModule> stages, SerialWay way);

  /// A micro-batch between its forwards and its backwards.
  struct InFlight {
    TrainedMicroBatch result;
    struct OfStage {
      std::optional<StageTape> tape;   // none: a recompute makes it
      std::vector<c10::IValue> inputs; // of the recompute: copies, with the state and
      std::vector<c10::IValue> state;  // generator that the forward saw
      at::Tensor generator;
    };
    std::vector<OfStage> stages;
  };

  /// All forwards of a micro-batch; takes one value per input of the signature. State that it
  /// writes is written into other memory than earlier micro-batches saw. A stage of way.split
  /// that cannot be split says why. Grad mode and optimiser flag are the calling thread's. Errors:
  /// the failing stage's, naming it.
  llvm::Expected<InFlight> forward(const std::vector<c10::IValue> &inputs);
  /// All its backwards, from output leaf `loss`, of one element, with `scale`. Stages that can be
  /// split walk back to their weights when all stages are through. Errors: as forward.
  llvm::Expected<TrainedMicroBatch> backward(InFlight microBatch, size_t loss,
                                             const at::Tensor &scale);
  /// Both.
  llvm::Expected<TrainedMicroBatch> run(const std::vector<c10::IValue> &inputs, size_t loss,
                                        const at::Tensor &scale);

  const c10::IValue &attribute(size_t stage, size_t index) const {
    return stages_[stage].attribute(index);
  }

private:
  std::vector<c10::IValue> state(size_t stage) const;
  void setState(size_t stage, std::vector<c10::IValue> values);
  llvm::Expected<StageTape> record(size_t stage, const std::vector<c10::IValue> &inputs);
  llvm::Error runStage(size_t stage, const std::vector<c10::IValue> &inputs, InFlight &flight);
  llvm::Error recompute(size_t stage, InFlight::OfStage &flight);

  const Plan *plan_;
  SerialWay way_;
  std::vector<StageModule> stages_;
  std::vector<std::vector<size_t>> written_; // per stage: attributes that are state
};

} // namespace pipec
