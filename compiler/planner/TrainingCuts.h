// Possible cuts of a model for training: all of them, or the most promising; and bounds that hold
// for every cut.
#pragma once

#include "compiler/planner/TrainingStages.h"

namespace pipec {

/// The numbers of ranks, stages and micro-batches. Only the cuts are left to choose.
struct TrainingShape {
  Placement placement = Placement::Loop;
  size_t chunks = 1;
  int64_t microBatches = 1;
  double share = 1;
};

using Boundaries = std::vector<size_t>;

/// The number of ways to choose `cuts` of the places; at most `most` + 1.
size_t countCuts(size_t places, size_t cuts, size_t most);
/// All of them, in lexicographic order.
std::vector<Boundaries> everyCut(const std::vector<size_t> &places, size_t cuts);

/// Cuts that are each optimal by a rule of thumb: the busiest stage has the least work; or the rank
/// that ends last starts early, with room for as many micro-batches in flight as a family of
/// schedules keeps; or such a family needs the least memory. A bisection of the minimised value
/// finds them: stages take as many operators as it allows. With `byLimit` false, memory limits are
/// ignored.
std::vector<Boundaries> promisingCuts(const TrainingStages &stages, const TrainingShape &shape,
                                      bool byLimit);

/// A lower bound in nanoseconds for every pipeline of this shape, for any cuts and any schedule. It
/// is the largest of: all work shared by all devices; the longest path of a micro-batch there and
/// back; an indivisible part on one device; with one stage per rank, ranks that wait for the first
/// micro-batch and then do their own work.
int64_t anyCutLowerBound(const TrainingStages &stages, const TrainingShape &shape);

} // namespace pipec
