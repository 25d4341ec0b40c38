// The work of a rank in a training besides forwards and transfers: backwards, sums of gradients
// over stages, their norm, the optimizer.
#pragma once

#include "runtime/RankProgram.h"
#include "runtime/RankReduce.h"
#include "runtime/SentWeights.h"
#include "runtime/training/StepNumbers.h"
#include "runtime/transport/Collectives.h"

#include <memory>
#include <optional>
#include <vector>

namespace pipec {

/// The part of a step's data that trainings use. All ranks read it; rank 0 writes what it found
/// when no other rank reads that any more.
struct TrainingData {
  // Of all steps.
  std::vector<std::string> needsDense; // of each parameter: see whatNeedsDense(); empty: nothing
  double clipNorm = 0;                 // 0: no clipping
  bool keepsGradients = false;         // as they are before clipping
  bool skipsNan = false;               // false: a step that is not finite fails
  bool anyTrained = true;              // false: all parameters are frozen
  // Of this step.
  std::vector<at::Tensor> scales; // [micro-batch]: the gradient of the loss
  double rateFactor = 0;          // see Optimizer::step
  bool mayDiverge = false;        // see judge()
  std::optional<double> count;    // found, of a loss that is a pair: the sum over micro-batches
  at::Tensor gradientNorm;        // found
  bool skipped = false;           // found: nothing was updated

  void forgetFound() {
    count.reset();
    gradientNorm.reset();
    skipped = false;
  }
};

/// Belongs to the rank's thread. All referenced objects must outlive it.
class RankTraining {
public:
  /// `rank`: of all replicas. `stages`: those of its replica; [s] is set for the stages of this
  /// rank, and may be set for others.
  RankTraining(size_t rank, const Plan &plan,
               const std::vector<std::unique_ptr<StageTraining>> &stages, Collectives &collectives);

  /// Forgets what is left of a step.
  void begin();
  /// A run of the program begins. `runs`: the micro-batches of this rank in each run of the step so
  /// far, this one last.
  void beginRun(llvm::ArrayRef<MicroBatchRange> runs);

  /// B or I: reads and writes the gradients in `slots`. microBatch: its number in the step;
  /// `leaves`: those of this micro-batch.
  llvm::Error backward(const Step &step, int64_t microBatch, const std::vector<c10::IValue> &leaves,
                       const TrainingData &data, std::vector<ReadyValue> &slots,
                       std::pair<Fence, Fence> &busy);

  /// Forgets all of a failed step, and which weights other ranks have.
  void forget() {
    begin();
    sent_.forget();
  }

  /// The message that brings a weight of this rank to the readers at the lane's end; None if the
  /// readers have its current value. Its arrival at the readers on this rank.
  c10::IValue weight(size_t lane, size_t channel);
  void takeWeight(size_t channel, const c10::IValue &value, const Fence &ready);
  /// The gradients that this rank found for a weight of another rank's stage, to be sent to its
  /// owner, and their arrival there. That of one stage is a tensor or None, those of several are a
  /// tuple with the number of each stage and its gradient.
  c10::IValue weightGradients(size_t channel) const;
  void takeWeightGradients(const Step &take, const c10::IValue &message, const Fence &ready);

  /// Sums the gradients of a stage over the replicas, in their order: with this rank of all of
  /// them. The loss and its count, if the stage makes them, become known for all micro-batches.
  llvm::Error reduce(const Step &step, const std::vector<std::vector<c10::IValue>> &leaves);
  /// Sums the gradients of the copies of a weight, with all ranks that have one.
  llvm::Error reduceTie(const Step &step);
  /// Ends the sums over stages, finds the norm of all gradients, and clips them. Errors: NotFinite,
  /// naming the parameter, or the micro-batch whose loss is not finite.
  llvm::Error norm(const Step &step, std::vector<std::vector<c10::IValue>> &leaves,
                   TrainingData &data);
  llvm::Error optimize(const Step &step, TrainingData &data);
  /// After the last step of a rank's program. Errors: those of norm, if nothing else found them.
  llvm::Error end(TrainingData &data);

  /// Of all results a training only needs the loss and its count.
  bool keepsLeaf(size_t leaf) const {
    return leaf == plan_.training->loss || leaf == plan_.training->count;
  }

  /// Whether the last step has changed weights.
  bool hasUpdated() const { return updated_; }

  StageTraining &stage(size_t index) { return *stages_[index]; }

private:
  /// Gradients of one weight by stage, the last stage first: the order of their sum.
  using Parts = std::vector<ReadyTensor>;
  /// A weight of this rank's stage whose gradient gets those of other stages.
  struct SentWeight {
    PortRef owner;
    std::vector<size_t> channels; // a reader that knows it by several names has several
  };
  /// The only place on that rank that reads the channel; null if there are several.
  const PortRef *onlyReader(size_t channel, size_t rank) const;
  /// The attribute of the stage that has the gradient of this attribute's tensor.
  size_t trainedPort(const PortRef &port) const { return trainedPort_[port.stage][port.port]; }
  /// The gradients that this rank found for the weight of a channel, as a message.
  void addWeightGradients(size_t channel, std::vector<c10::IValue> &message) const;
  void sumTransmitted();
  /// Adds those of this replica's micro-batches that `stage`, on this rank, makes.
  void noteLeaves(size_t stage, const std::vector<std::vector<c10::IValue>> &leaves);
  /// A loss may be a weight, or a view of one, which the optimizer is about to change.
  void copyLosses(std::vector<std::vector<c10::IValue>> &leaves) const;
  void forgetLeaves();
  /// Gives message_ to the group: messages_ are those of all.
  llvm::Error gather(const Step &step) {
    return collectives_.gather(step.group, rank_, message_, messages_);
  }
  void forgetMessages();
  /// Of a loss that is a pair: the sum over all micro-batches.
  llvm::Expected<double> totalCount(const Step &step);
  bool makesLeaf(size_t stage, size_t leaf) const {
    return isMine(stage) && hasLeaf(plan_.stages[stage], leaf);
  }
  llvm::Error collectNumbers(const TrainingData &data, std::optional<double> count);
  void clip(const TrainingData &data);
  llvm::Error decide(TrainingData &data);
  bool isMine(size_t stage) const { return plan_.stages[stage].rank == planRank_; }
  /// The stage on whose stream this rank does what concerns all of its stages.
  StageExecutor &main() const { return stages_[mainStage_]->executor(); }
  Device &device() const { return main().device(); }

  size_t rank_;     // of all replicas
  size_t planRank_; // in its replica
  const Plan &plan_;
  const std::vector<std::unique_ptr<StageTraining>> &stages_;
  Collectives &collectives_;
  std::vector<std::vector<size_t>> trainedPort_; // per stage and attribute
  std::vector<SentWeight> sentWeights_;
  size_t mainStage_ = 0;

  // Of one backward at a time, else empty.
  std::vector<ValueGradients> ofOutputs_; // by output port
  std::vector<ValueGradients> ofInputs_;  // by input port
  // Of one collective at a time, else empty.
  std::vector<c10::IValue> message_;
  GatheredValues messages_;
  std::vector<at::Tensor> gradients_; // those to be clipped
  Parts parts_;                       // of one sum
  // Of this step.
  std::vector<MicroBatchRange> mine_;
  std::vector<Parts> arrived_; // by weight channel
  LeafValues known_;           // those that this rank knows
  bool isSummed_ = false;      // sumTransmitted() has run
  // After NORM.
  StepNumbers numbers_;
  at::Tensor total_, isFinite_; // isFinite_: on a device with streams until decide()
  bool isDecided_ = true;
  bool isCounted_ = true; // the loss has no count, or one that it can be divided by
  bool skips_ = false, updated_ = false;
  uint64_t updates_ = 0; // optimizer runs of this rank's stages
  SentWeights sent_;
};

} // namespace pipec
