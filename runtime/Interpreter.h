// The only loop of the runtime: a rank walks through its program.
#pragma once

#include "runtime/RankProgram.h"
#include "runtime/RankTraining.h"
#include "runtime/StageExecutor.h"
#include "runtime/transport/Transport.h"

#include <atomic>
#include <optional>

namespace pipec {

/// The data that all ranks share during one step. Each cell of `leaves` is written once, by the
/// rank that makes it.
struct StepData {
  uint64_t seed = 0;
  uint64_t step = 0;
  /// A step may be several runs of the program, one per batch. Its micro-batches are numbered
  /// through all of them: this run has those from `first` on. Only the last run ends the step.
  int64_t first = 0;
  bool isLast = true;
  std::vector<std::vector<c10::IValue>> inputs; // [micro-batch][argument]; read only
  std::vector<std::vector<c10::IValue>> leaves; // [micro-batch][leaf]
  TrainingData training;
  std::atomic<bool> failed = false; // a rank that sees it starts nothing more
};

/// Runs the program of one rank. Belongs to the rank's thread after construction.
class Interpreter {
public:
  /// `executors[s]` is set for the stages of this rank. `training`: null for an inference. All
  /// referenced objects must outlive the interpreter.
  Interpreter(RankProgram program, const std::vector<std::unique_ptr<StageExecutor>> &executors,
              Transport &transport, Device &device, std::unique_ptr<RankTraining> training);

  /// Runs one step. Errors: the first failure, or that another rank failed; the slots are then
  /// emptied.
  llvm::Error run(StepData &data);

  /// The micro-batch on which a stage failed in the last run, if any.
  std::optional<int64_t> failedMicroBatch() const { return failedMicroBatch_; }

  /// Frees what a failed run of a training left: graphs, gradients.
  void forget() {
    if (training_)
      training_->begin();
  }

  /// Whether the last run has changed weights.
  bool hasUpdated() const { return training_ && training_->hasUpdated(); }

  /// Adds the busy time of each stage in the last run to `stageBusyNs`. Returns the time from the
  /// first start to the last end.
  int64_t addTimes(std::vector<int64_t> &stageBusyNs);

private:
  llvm::Error runSteps(StepData &data);
  llvm::Error runStep(const Step &step, StepData &data, std::pair<Fence, Fence> &busy);
  llvm::Error endStep(const Step &step, StepData &data);
  llvm::Expected<std::vector<ReadyValue>> inputsOf(const Step &step, const StepData &data);
  llvm::Error forward(const Step &step, StepData &data, std::pair<Fence, Fence> &busy);
  llvm::Error checkFlags(const Step &step, const std::vector<c10::IValue> &outputs) const;
  llvm::Error send(const Step &step);
  llvm::Error take(const Step &step);

  RankProgram program_;
  const std::vector<std::unique_ptr<StageExecutor>> &executors_;
  Transport &transport_;
  Device &device_;
  std::unique_ptr<RankTraining> training_;
  std::vector<ReadyValue> slots_;
  std::optional<int64_t> failedMicroBatch_;
  std::vector<std::pair<Fence, Fence>> busy_; // one per step; only those that compute fill theirs
};

} // namespace pipec
