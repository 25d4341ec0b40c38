// The best pipeline for a training, from the costs of operators. It chooses cuts, stages per rank,
// schedule, number of micro-batches, recomputed stages and the mode of shared weights together,
// within the memory of every device.
#pragma once

#include "compiler/planner/ScheduleSearch.h"
#include "compiler/planner/TrainingStages.h"

#include <functional>

namespace pipec {

/// A way to cut the batch: the number of micro-batches, and the size of each as a part of the
/// table's.
struct MicroBatching {
  int64_t microBatches = 1;
  double share = 1;
};

/// The detail of the error if nothing fits: none, the least memory of the examined pipelines, or
/// the least limit for which a search finds a pipeline.
enum class LeastWanted { None, OfLookedAt, OfAll };

/// The error of a model that cannot be cut so often, with the reasons, which only its graph shows.
/// Empty: only the table is known.
using EnoughPlaces = std::function<llvm::Error(size_t cuts)>;

struct JointRequest {
  TrainingProblem problem;
  std::vector<MicroBatching> microBatchings;
  /// The smallest possible micro-batches, if the number of micro-batches is free and only some
  /// numbers are tried. The lower bound then holds for the others too.
  std::optional<MicroBatching> smallest;
  std::vector<size_t> chunks; // stages per rank to try
  RecomputeWish recompute;
  std::optional<Tie::Mode> tied; // absent: both are tried
  std::string schedule;          // the only one to try; empty: all
  double seconds = 30;
  LeastWanted least = LeastWanted::OfAll;
  std::string (*memoryText)(int64_t bytes) = nullptr;
  EnoughPlaces enoughPlaces;
};

struct JointOutcome {
  SearchOutcome search; // a work's tag is an index into `points`
  std::vector<TrainingPoint> points;
  bool everyCut = false;  // true: every cut was examined or excluded by a bound; false: only the
                          // promising ones
  size_t pipelines = 0;   // combinations of cut, shape and tied mode for which schedules were made
  int64_t lowerBound = 0; // nanoseconds of a step, for every allowed choice
  const TrainingPoint &best() const { return points[search.best().work->tag]; }
  double gap() const {
    return search.run.makespan > 0 ? 1 - double(lowerBound) / double(search.run.makespan) : 0;
  }
};

/// Tries every cut if there are at most a few thousand. Otherwise it tries those of promisingCuts,
/// and moves the boundaries of the best as long as that helps. Pipelines whose lower bound is above
/// the best step are not simulated. The result is the same on every run and machine: seconds
/// are those of WorkClock. If they are up, `search.complete` is false, and the result may not be
/// the best. Errors: those of request.enoughPlaces for a model that cannot be cut into that many
/// stages, Usage if only the table shows it; Usage for numbers that no schedule supports; NoPlan if
/// nothing fits, with the least memory of a device for which this search finds something, as far as
/// it got.
llvm::Expected<JointOutcome> searchJointly(const JointRequest &request);

} // namespace pipec
