// Where a model that is to be trained may be cut: every way, or those that promise most; and what
// no cut at all can beat.
#pragma once

#include "compiler/planner/TrainingStages.h"

namespace pipec {

/// How many ranks, stages and micro-batches: what is left to choose are the cuts.
struct TrainingShape {
  Placement placement = Placement::Loop;
  size_t chunks = 1;
  int64_t microBatches = 1;
  double share = 1;
};

using Boundaries = std::vector<size_t>;

/// The number of ways to cut at so many of the places; at most `most` + 1.
size_t countCuts(size_t places, size_t cuts, size_t most);
/// All of them, in lexicographic order.
std::vector<Boundaries> everyCut(const std::vector<size_t> &places, size_t cuts);

/// Cuts that are each the best of all by a rule of thumb: the busiest stage has least to do, or the
/// rank that is done last starts early, with room for as many micro-batches in flight as a family
/// of schedules keeps; and those with which such families need least memory. Found by bisection of
/// what is minimised, stages taking as many operators as it allows. `byLimit` false: memory limits
/// are not looked at.
std::vector<Boundaries> promisingCuts(const TrainingStages &stages, const TrainingShape &shape,
                                      bool byLimit);

/// Nanoseconds that no pipeline of this shape beats, wherever it is cut, whatever the schedule:
/// all work shared by all devices; the longest way of a micro-batch there and back; what may not be
/// cut, on one device; with one stage per rank, ranks that wait for the first micro-batch and then
/// do their own work.
int64_t anyCutLowerBound(const TrainingStages &stages, const TrainingShape &shape);

} // namespace pipec
