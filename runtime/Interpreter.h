// The only loop of the runtime: one rank walks over its program.
#pragma once

#include "runtime/RankProgram.h"
#include "runtime/StageExecutor.h"
#include "runtime/transport/Transport.h"

#include <atomic>
#include <optional>

namespace pipec {

/// What all ranks share during one step. The cells of `leaves` are written by the rank that makes
/// them, each by one rank once.
struct StepData {
  uint64_t seed = 0;
  uint64_t step = 0;
  std::vector<std::vector<c10::IValue>> inputs; // [micro-batch][argument]; read only
  std::vector<std::vector<c10::IValue>> leaves; // [micro-batch][leaf]
  std::atomic<bool> failed = false;             // a rank that sees it starts nothing more
};

/// Runs the program of one rank. Belongs to the rank's thread after construction.
class Interpreter {
public:
  /// `executors[s]` is set for the stages of this rank; everything referred to must outlive the
  /// interpreter.
  Interpreter(RankProgram program, const std::vector<std::unique_ptr<StageExecutor>> &executors,
              Transport &transport, Device &device);

  /// One step. Errors: the first failure, or that another rank had one; the slots are emptied.
  llvm::Error run(StepData &data);

  /// The micro-batch on which a stage failed in the last run, if one did.
  std::optional<int64_t> failedMicroBatch() const { return failedMicroBatch_; }

  /// Adds the time that each stage was busy in the last run to `stageBusyNs`; returns the time from
  /// the first start to the last end.
  int64_t addTimes(std::vector<int64_t> &stageBusyNs);

private:
  llvm::Error runSteps(StepData &data);
  llvm::Error forward(const Step &step, StepData &data, std::pair<Fence, Fence> &busy);
  llvm::Error send(const Step &step);
  llvm::Error take(const Step &step);

  RankProgram program_;
  const std::vector<std::unique_ptr<StageExecutor>> &executors_;
  Transport &transport_;
  Device &device_;
  std::vector<ReadyValue> slots_;
  std::optional<int64_t> failedMicroBatch_;
  std::vector<std::pair<Fence, Fence>> busy_; // one per step; only forwards fill theirs
};

} // namespace pipec
