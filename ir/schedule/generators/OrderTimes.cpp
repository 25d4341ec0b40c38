#include "ir/schedule/generators/OrderTimes.h"

#include <algorithm>

namespace pipec {

namespace {

constexpr int64_t kNotYet = std::numeric_limits<int64_t>::min();

} // namespace

OrderTimes::OrderTimes(const ScheduleRequest &request, std::vector<size_t> rankOfStage)
    : request_(request), rankOfStage_(std::move(rankOfStage)) {}

int64_t OrderTimes::lengthOf(const Action &action) const {
  const StageCosts &cost = request_.costs.stages[action.stage];
  return action.kind == ActionKind::Forward     ? cost.forward
         : action.kind == ActionKind::InputGrad ? cost.inputGrad
                                                : cost.weightGrad;
}

int64_t OrderTimes::memoryOf(const Action &action) const {
  const StageCosts &cost = request_.costs.stages[action.stage];
  return action.kind == ActionKind::Forward     ? cost.heldByForward
         : action.kind == ActionKind::InputGrad ? -cost.freedByInputGrad
                                                : -cost.freedByWeightGrad();
}

int64_t OrderTimes::arrival(int64_t end, size_t from, size_t to) const {
  if (end == kNotYet || rankOfStage_[from] == rankOfStage_[to])
    return end;
  return end + request_.costs.latency;
}

int64_t OrderTimes::readyAt(const Action &action) const {
  const size_t s = action.stage, here = cell(action);
  const auto m = static_cast<size_t>(request_.microBatches);
  if (action.kind == ActionKind::WeightGrad)
    return gradEnd_[here];
  if (action.kind == ActionKind::Forward)
    return s == 0 ? 0 : arrival(forwardEnd_[here - m], s - 1, s);
  if (s + 1 == request_.stages() || forwardEnd_[here] == kNotYet)
    return forwardEnd_[here];
  const int64_t grad = arrival(gradEnd_[here + m], s + 1, s);
  return grad == kNotYet ? grad : std::max(grad, forwardEnd_[here]);
}

bool OrderTimes::run(const Schedule &schedule) {
  const size_t cells = request_.stages() * static_cast<size_t>(request_.microBatches);
  forwardEnd_.assign(cells, kNotYet);
  gradEnd_.assign(cells, kNotYet);
  next_.assign(schedule.ranks.size(), 0);
  ranks.resize(schedule.ranks.size());
  for (size_t r = 0; r < ranks.size(); ++r)
    ranks[r].resize(schedule.ranks[r].size());
  for (bool progress = true; progress;) {
    progress = false;
    for (size_t r = 0; r < ranks.size(); ++r)
      for (size_t &i = next_[r]; i < ranks[r].size(); ++i) {
        const Action &action = schedule.ranks[r][i];
        const int64_t ready = readyAt(action);
        if (ready == kNotYet)
          break;
        const int64_t start = std::max(ready, i == 0 ? 0 : ranks[r][i - 1].end);
        const int64_t end = start + lengthOf(action);
        ranks[r][i] = {start, end};
        if (action.kind == ActionKind::Forward)
          forwardEnd_[cell(action)] = end;
        else if (action.kind == ActionKind::InputGrad)
          gradEnd_[cell(action)] = end;
        progress = true;
      }
  }
  makespan = longestSpan = 0;
  for (size_t r = 0; r < ranks.size(); ++r) {
    if (next_[r] < ranks[r].size())
      return false;
    if (ranks[r].empty())
      continue;
    makespan = std::max(makespan, ranks[r].back().end);
    longestSpan = std::max(longestSpan, ranks[r].back().end - ranks[r].front().start);
  }
  return true;
}

} // namespace pipec
