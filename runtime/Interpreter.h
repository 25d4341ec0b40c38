// The only loop of the runtime: a rank walks through its program, or takes what is ready of it.
#pragma once

#include "ir/schedule/Timing.h"
#include "runtime/DynamicOrder.h"
#include "runtime/RankCores.h"
#include "runtime/RankProgram.h"
#include "runtime/RankTraining.h"
#include "runtime/StageExecutor.h"
#include "runtime/transport/Transport.h"

#include <atomic>
#include <optional>

namespace pipec {

/// The data that all ranks share during one step. Each cell of `leaves` is written by one
/// rank, which makes it.
struct StepData {
  uint64_t seed = 0;
  uint64_t step = 0;
  /// A step may be several runs of the program, one per batch. Its micro-batches are numbered
  /// through all of them. Only the last run ends the step.
  bool isLast = true;
  std::vector<MicroBatchRange> runs; // of replica 0: the runs of this step so far, this one last;
                                     // empty: an inference, which has one run
  std::vector<std::vector<c10::IValue>> inputs; // [micro-batch][argument]; read only
  std::vector<int64_t> samples;                 // [micro-batch]
  std::vector<std::vector<c10::IValue>> leaves; // [micro-batch][leaf]
  TrainingData training;
  std::atomic<bool> failed = false; // a rank that sees it starts nothing more

  /// The first micro-batch of this run, of all replicas.
  int64_t first() const { return runs.empty() ? 0 : runs.back().first; }

  /// Makes room for the results of micro-batches with `perMicroBatch` leaves each.
  void beginLeaves(size_t microBatches, size_t perMicroBatch);
  /// Frees inputs and leaves, and keeps the memory of the lists for the next step.
  void forgetInputs();
  void forgetLeaves();
};

/// Runs the program of one rank. Belongs to the rank's thread after construction.
class Interpreter {
public:
  /// `executors[s]` is set for the stages of this rank. `training`: null for an inference.
  /// `range`: the micro-batches of the rank's replica. inFlight: 0 for the program's order; else
  /// see DynamicOrder. All referenced objects must outlive the interpreter.
  Interpreter(RankProgram program, const std::vector<std::unique_ptr<StageExecutor>> &executors,
              Transport &transport, RankCores &cores, size_t rank, Device &device,
              std::unique_ptr<RankTraining> training, MicroBatchRange range, int64_t inFlight);

  /// Runs one step. Errors: the first failure, or that another rank failed; the slots are then
  /// emptied.
  llvm::Error run(StepData &data);

  /// The micro-batch on which a stage failed in the last run, if any.
  std::optional<int64_t> failedMicroBatch() const { return failedMicroBatch_; }

  /// Frees what a failed run of a training left: graphs, gradients.
  void forget() {
    if (training_)
      training_->forget();
  }

  /// Whether the last run has changed weights.
  bool hasUpdated() const { return training_ && training_->hasUpdated(); }

  /// Adds the busy time of each stage in the last run to `stageBusyNs`. Returns the time from the
  /// first start to the last end.
  int64_t addTimes(std::vector<int64_t> &stageBusyNs);

  /// The steps of the last run in their order, as indices of the program.
  const std::vector<size_t> &order() const { return order_; }
  /// Their times in this order, on the clock of Fence::hostNs.
  std::vector<Timing::Interval> times();

private:
  /// Of this rank's first micro-batch in the step.
  int64_t firstOf(const StepData &data) const { return data.first() + range_.first; }
  llvm::ArrayRef<MicroBatchRange> runsOf(const StepData &data);
  llvm::Error runSteps(StepData &data);
  llvm::Expected<size_t> nextReady();
  llvm::Error runNext(size_t index, StepData &data);
  llvm::Error runStep(const Step &step, StepData &data, std::pair<Fence, Fence> &busy);
  llvm::Error endStep(const Step &step, StepData &data);
  llvm::Error takeInputs(const Step &step, const StepData &data);
  llvm::Error forward(const Step &step, StepData &data, std::pair<Fence, Fence> &busy);
  llvm::Error checkFlags(const Step &step, const std::vector<c10::IValue> &outputs) const;
  llvm::Error send(const Step &step);
  llvm::Error take(const Step &step);

  RankProgram program_;
  const std::vector<std::unique_ptr<StageExecutor>> &executors_;
  Transport &transport_;
  RankCores &cores_;
  size_t rank_;
  Device &device_;
  std::unique_ptr<RankTraining> training_;
  MicroBatchRange range_;
  std::vector<MicroBatchRange> runs_; // of the step, of this replica
  std::vector<ReadyValue> slots_;
  std::vector<ReadyValue> inputs_; // of the forward that begins
  std::optional<int64_t> failedMicroBatch_;
  std::optional<DynamicOrder> ready_;
  std::vector<size_t> order_;
  std::vector<std::pair<Fence, Fence>> busy_; // by step; only those that compute fill theirs
  std::vector<Timing::Interval> hostTimes_;   // by step
};

} // namespace pipec
