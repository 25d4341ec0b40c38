// The best pipeline for a training, from what operators cost: cuts, stages per rank, schedule,
// number of micro-batches, what is recomputed and how shared weights are kept, all at once, within
// the memory of every device.
#pragma once

#include "compiler/planner/ScheduleSearch.h"
#include "compiler/planner/TrainingStages.h"

namespace pipec {

/// A way to cut the batch: so many micro-batches, each this part of the table's.
struct MicroBatching {
  int64_t microBatches = 1;
  double share = 1;
};

/// What is said where nothing fits: nothing more, the least memory of the pipelines that were
/// looked at, or the least limit with which a search finds one.
enum class LeastWanted { None, OfLookedAt, OfAll };

struct JointRequest {
  TrainingProblem problem;
  std::vector<MicroBatching> microBatchings;
  /// Where other numbers of micro-batches are free as well, of which not all are tried: the
  /// smallest micro-batches there can be. The lower bound then holds for those, too.
  std::optional<MicroBatching> smallest;
  std::vector<size_t> chunks; // stages per rank to try
  RecomputeChoice recompute = RecomputeChoice::Auto;
  std::optional<Tie::Mode> tied; // nothing: both are tried
  std::string schedule;          // only this one; empty: every one
  double seconds = 30;
  LeastWanted least = LeastWanted::OfAll;
  double leastSeconds = 10; // for that, beyond those of the pipelines that were looked at
  std::string (*memoryText)(int64_t bytes) = nullptr;
};

struct JointOutcome {
  SearchOutcome search; // a work's tag is an index into `points`
  std::vector<TrainingPoint> points;
  bool everyCut = false; // all were looked at or ruled out by a bound; else those that promise most
  size_t pipelines = 0;  // cut, shape and tied mode, for which schedules were made
  int64_t lowerBound = 0; // nanoseconds of a step that no choice of all that was free beats
  const TrainingPoint &best() const { return points[search.best().work->tag]; }
  double gap() const {
    return search.run.makespan > 0 ? 1 - double(lowerBound) / double(search.run.makespan) : 0;
  }
};

/// Every cut is tried where there are at most some thousand of them; otherwise those of
/// promisingCuts, and the best of them with its boundaries moved as long as that helps. Pipelines
/// whose lower bound is above the best step found are not simulated. The same on every run but for
/// where the time limit strikes: then `search.complete` is false, and what fits may not be the
/// best. Errors: Usage for a model that cannot be cut into as many stages or numbers that no
/// schedule is for; NoPlan when nothing fits, with the least memory of a device with which this
/// search finds something, as far as it came.
llvm::Expected<JointOutcome> searchJointly(const JointRequest &request);

} // namespace pipec
