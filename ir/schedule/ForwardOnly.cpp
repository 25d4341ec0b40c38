// The schedule of an inference: every stage runs every micro-batch once.
//
// The order is that of a run in which every forward takes one unit of time: of the values that have
// arrived, a rank takes the lowest micro-batch, and of that the lowest stage. A rank with
// neighbouring stages goes depth first. Stages in a loop fill the pipeline like interleaved 1F1B.
// Two ranks:
//   stages 0 to 3 on 0 0 1 1   rank 0: 0F0 1F0 0F1 1F1   rank 1: 2F0 3F0 2F1 3F1
//   stages 0 to 3 on 0 1 0 1   rank 0: 0F0 0F1 2F0 2F1   rank 1: 1F0 1F1 3F0 3F1
#include "ir/schedule/ForwardOnly.h"

#include "ir/plan/Plan.h"

#include <queue>

namespace pipec {

namespace {

struct Arrived {
  int64_t microBatch;
  size_t stage;
  bool operator<(const Arrived &other) const { // the lowest on top of the queue
    return microBatch != other.microBatch ? microBatch > other.microBatch : stage > other.stage;
  }
};

} // namespace

Schedule forwardOnly(const ScheduleShape &shape) {
  Schedule schedule;
  schedule.ranks.resize(shape.ranks);
  if (shape.stages == 0)
    return schedule;
  std::vector<std::priority_queue<Arrived>> ready(shape.ranks);
  for (int64_t m = 0; m < shape.microBatches; ++m)
    ready[shape.rankOfStage[0]].push({m, 0});
  const size_t all = shape.stages * static_cast<size_t>(shape.microBatches);
  // Ranks with something to run: not all of many ranks are looked at in every unit of time.
  std::vector<size_t> now{shape.rankOfStage[0]}, later;
  std::vector<Arrived> arriving;
  for (size_t done = 0; done < all;) {
    for (size_t rank : now) {
      const Arrived next = ready[rank].top();
      ready[rank].pop();
      schedule.ranks[rank].push_back({ActionKind::Forward, next.stage, next.microBatch});
      ++done;
      if (next.stage + 1 < shape.stages)
        arriving.push_back({next.microBatch, next.stage + 1});
      if (!ready[rank].empty())
        later.push_back(rank);
    }
    for (const Arrived &value : arriving) {
      const size_t rank = shape.rankOfStage[value.stage];
      if (ready[rank].empty())
        later.push_back(rank);
      ready[rank].push(value);
    }
    arriving.clear();
    now.swap(later);
    later.clear();
  }
  return schedule;
}

Schedule forwardOnly(const Plan &plan, int64_t microBatches) {
  ScheduleShape shape{plan.stages.size(), microBatches, {}, plan.ranks};
  for (const StagePlan &stage : plan.stages)
    shape.rankOfStage.push_back(stage.rank);
  return forwardOnly(shape);
}

} // namespace pipec
