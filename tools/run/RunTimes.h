// The times of a pipeline's steps: the measured ones, and those that the simulator predicts from
// them.
#pragma once

#include "ir/schedule/Simulate.h"
#include "runtime/RunTrace.h"

#include <deque>

namespace pipec {

/// Keeps the last steps of a run.
class RunTimes {
public:
  void add(RunTrace trace);
  /// The last step, of several batches the last one; null before the first.
  const RunTrace *last() const { return traces_.empty() ? nullptr : &traces_.back(); }

  /// The program of the last step, or of its last batch, simulated: each action takes the time that
  /// its stage took for such actions, the mean over micro-batches of the median over the kept
  /// steps, the optimizer too, the norm what it took for the rank that came last, and a value needs
  /// as long to another rank as a hand-over between threads. Sums over stages take no time. So what
  /// a step needs beyond it is the cost of the runtime, and of ranks that share cores. Errors:
  /// those of simulate().
  llvm::Expected<SimulatedRun> simulated(const Plan &plan) const;
  /// The time of the batches of a step before its last one, simulated: a run of the program each,
  /// without norm and optimizer. Errors: those of simulate().
  llvm::Expected<int64_t> simulatedBeforeLast(const Plan &plan, int64_t batches) const;

private:
  ProgramCosts costs(const Plan &plan) const;
  static constexpr size_t kMost = 32;
  std::deque<RunTrace> traces_;
};

/// The share of `span` that the ranks are idle together, as StepStats counts it.
double meanBubble(const Timing &timing, int64_t span);

} // namespace pipec
