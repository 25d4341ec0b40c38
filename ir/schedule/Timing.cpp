#include "ir/schedule/Timing.h"

#include "ir/schedule/ForwardOnly.h"
#include "ir/schedule/RankQueue.h"
#include "ir/schedule/TableCheck.h"
#include "ir/support/Error.h"
#include "ir/support/Try.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <map>

namespace pipec {
namespace {

constexpr int64_t kNotYet = -1;

/// The unit that a rank runs: one action, or the two of a pair.
struct Block {
  size_t first = 0, count = 1; // indices into the rank's actions
};

class Timer {
public:
  Timer(const Schedule &schedule, const ScheduleCosts &costs, const TableShape &shape,
        PairRule pairs)
      : schedule_(schedule), costs_(costs), shape_(shape), pairs_(pairs),
        awake_(schedule.ranks.size()) {
    const size_t cells = shape.stages * static_cast<size_t>(shape.microBatches);
    forwardEnd_.assign(cells, kNotYet);
    backwardEnd_.assign(shape.backward ? cells : 0, kNotYet);
    skipsIn_.resize(shape.stages);
    skipsOut_.resize(shape.stages);
    for (auto [from, to] : costs.skips) {
      skipsIn_[to].push_back(from);
      skipsOut_[from].push_back(to);
    }
  }

  llvm::Expected<Timing> run() {
    const size_t ranks = schedule_.ranks.size();
    timing_.ranks.resize(ranks);
    timing_.busy.assign(ranks, 0);
    timing_.peakBytes.assign(ranks, 0);
    next_.assign(ranks, 0);
    free_.assign(ranks, 0);
    held_.assign(ranks, 0);
    for (size_t r = 0; r < ranks; ++r)
      timing_.ranks[r].resize(schedule_.ranks[r].size());
    // A rank runs until it waits, and the end of what it waits for wakes it.
    while (!awake_.empty())
      advance(awake_.take());
    for (size_t r = 0; r < ranks; ++r)
      if (next_[r] < schedule_.ranks[r].size())
        return deadlock(r);
    summarise();
    return std::move(timing_);
  }

private:
  size_t cell(size_t stage, int64_t microBatch) const {
    return stage * static_cast<size_t>(shape_.microBatches) + static_cast<size_t>(microBatch);
  }

  Block blockAt(size_t rank, size_t i) const {
    const bool pair = pairs_ != PairRule::Split && schedule_.ranks[rank][i].withNext;
    return {i, pair ? size_t{2} : size_t{1}};
  }

  /// Calls `visit(end of a producer, its rank, its action)` for all that `action` reads.
  template <typename Visit> void forEachProducer(const Action &action, Visit visit) const {
    auto value = [&](bool forward, size_t stage) {
      const int64_t end = (forward ? forwardEnd_ : backwardEnd_)[cell(stage, action.microBatch)];
      visit(end, shape_.rankOfStage[stage],
            Action{forward ? ActionKind::Forward : ActionKind::FullBackward, stage,
                   action.microBatch});
    };
    if (action.kind == ActionKind::Forward) {
      if (action.stage > 0)
        value(true, action.stage - 1);
      for (size_t from : skipsIn_[action.stage])
        value(true, from);
    } else if (action.kind == ActionKind::FullBackward || action.kind == ActionKind::InputGrad) {
      if (action.stage + 1 < shape_.stages)
        value(false, action.stage + 1);
      for (size_t to : skipsOut_[action.stage])
        value(false, to);
    } // F before I before W on one rank is the table's order
  }

  /// When a block can start, or kNotYet.
  int64_t readyAt(size_t rank, Block block) const {
    int64_t ready = free_[rank];
    for (size_t i = 0; i < block.count; ++i)
      forEachProducer(schedule_.ranks[rank][block.first + i],
                      [&](int64_t end, size_t from, const Action &) {
                        if (end == kNotYet || ready == kNotYet)
                          ready = kNotYet;
                        else
                          ready = std::max(ready, end + (from == rank ? 0 : costs_.latency));
                      });
    return ready;
  }

  int64_t durationOf(const Action &action) const {
    const StageCosts &stage = costs_.stages[action.stage];
    switch (action.kind) {
    case ActionKind::Forward:
    case ActionKind::Recompute:
      return stage.forward;
    case ActionKind::FullBackward:
      return stage.fullBackward();
    case ActionKind::InputGrad:
      return stage.inputGrad;
    case ActionKind::WeightGrad:
      return stage.weightGrad;
    default:
      return 0;
    }
  }

  int64_t durationOf(size_t rank, Block block) const {
    int64_t sum = 0, most = 0;
    for (size_t i = 0; i < block.count; ++i) {
      const int64_t time = durationOf(schedule_.ranks[rank][block.first + i]);
      sum += time;
      most = std::max(most, time);
    }
    return pairs_ == PairRule::Concurrent ? most : sum;
  }

  void advance(size_t rank) {
    const std::vector<Action> &actions = schedule_.ranks[rank];
    while (next_[rank] < actions.size()) {
      if (!isCompute(actions[next_[rank]].kind)) {
        timing_.ranks[rank][next_[rank]++] = {free_[rank], free_[rank]};
        continue;
      }
      const Block block = blockAt(rank, next_[rank]);
      const int64_t start = readyAt(rank, block);
      if (start == kNotYet)
        return;
      run(rank, block, start);
    }
  }

  /// Wakes the ranks that read the result of `action`, as forEachProducer says.
  void wakeReaders(const Action &action) {
    if (action.kind == ActionKind::Forward) {
      if (action.stage + 1 < shape_.stages)
        awake_.add(shape_.rankOfStage[action.stage + 1]);
      for (size_t to : skipsOut_[action.stage])
        awake_.add(shape_.rankOfStage[to]);
    } else if (action.kind == ActionKind::FullBackward || action.kind == ActionKind::InputGrad) {
      if (action.stage > 0)
        awake_.add(shape_.rankOfStage[action.stage - 1]);
      for (size_t from : skipsIn_[action.stage])
        awake_.add(shape_.rankOfStage[from]);
    }
  }

  void run(size_t rank, Block block, int64_t start) {
    const int64_t end = start + durationOf(rank, block);
    for (size_t i = block.first; i < block.first + block.count; ++i) {
      const Action &action = schedule_.ranks[rank][i];
      timing_.ranks[rank][i] = {start, end};
      if (action.kind == ActionKind::Forward) {
        forwardEnd_[cell(action.stage, action.microBatch)] = end;
        held_[rank] += costs_.stages[action.stage].heldByForward;
        timing_.peakBytes[rank] = std::max(timing_.peakBytes[rank], held_[rank]);
      } else if (action.kind == ActionKind::FullBackward || action.kind == ActionKind::InputGrad) {
        backwardEnd_[cell(action.stage, action.microBatch)] = end;
      }
      wakeReaders(action);
    }
    for (size_t i = block.first; i < block.first + block.count; ++i)
      held_[rank] -= freedBy(schedule_.ranks[rank][i]);
    timing_.peakBytes[rank] = std::max(timing_.peakBytes[rank], held_[rank]);
    timing_.busy[rank] += end - start;
    free_[rank] = end;
    next_[rank] += block.count;
  }

  int64_t freedBy(const Action &action) const {
    const StageCosts &stage = costs_.stages[action.stage];
    switch (action.kind) {
    case ActionKind::FullBackward:
      return stage.heldByForward;
    case ActionKind::InputGrad:
      return stage.freedByInputGrad;
    case ActionKind::WeightGrad:
      return stage.freedByWeightGrad();
    default:
      return 0;
    }
  }

  void summarise() {
    for (const std::vector<Timing::Interval> &intervals : timing_.ranks) {
      if (intervals.empty())
        continue;
      int64_t first = intervals.front().start, last = 0;
      for (const Timing::Interval &interval : intervals)
        last = std::max(last, interval.end);
      timing_.makespan = std::max(timing_.makespan, last);
      timing_.longestSpan = std::max(timing_.longestSpan, last - first);
    }
  }

  /// The table is complete, so every waiting rank waits for another waiting rank: following them
  /// ends in a cycle.
  llvm::Error deadlock(size_t rank) const {
    std::vector<size_t> way;
    std::map<size_t, std::string> why;
    while (!llvm::is_contained(way, rank)) {
      way.push_back(rank);
      const Block block = blockAt(rank, next_[rank]);
      size_t waitsFor = rank;
      for (size_t i = 0; i < block.count; ++i)
        forEachProducer(schedule_.ranks[rank][block.first + i],
                        [&](int64_t end, size_t from, const Action &producer) {
                          if (end != kNotYet)
                            return;
                          waitsFor = from;
                          why[rank] = fmt::format("rank {} at {} waits for {}", rank,
                                                  toString(schedule_.ranks[rank][block.first + i]),
                                                  toString(producer));
                        });
      rank = waitsFor;
    }
    std::string cycle;
    for (auto it = llvm::find(way, rank); it != way.end(); ++it)
      cycle += (cycle.empty() ? "" : "; ") + why[*it];
    return failf(ExitCode::BadArtifact, "schedule: deadlock: {}", cycle);
  }

  const Schedule &schedule_;
  const ScheduleCosts &costs_;
  const TableShape &shape_;
  PairRule pairs_;
  Timing timing_;
  std::vector<std::vector<size_t>> skipsIn_, skipsOut_;
  std::vector<int64_t> forwardEnd_, backwardEnd_; // per cell; kNotYet
  std::vector<size_t> next_;                      // per rank
  std::vector<int64_t> free_, held_;
  RankQueue awake_; // ranks to advance
};

} // namespace

ScheduleCosts equalCosts(const StageCosts &whole, int64_t latency, size_t ranks, size_t chunks) {
  ScheduleCosts costs;
  costs.latency = latency;
  const auto n = static_cast<int64_t>(chunks);
  for (size_t c = 0; c < chunks; ++c) {
    auto part = [&](int64_t all) { return all / n + (c + 1 == chunks ? all % n : 0); };
    const StageCosts stage{part(whole.forward), part(whole.inputGrad), part(whole.weightGrad),
                           part(whole.heldByForward), part(whole.freedByInputGrad)};
    costs.stages.insert(costs.stages.end(), ranks, stage);
  }
  return costs;
}

int64_t Timing::work() const {
  return busy.empty() ? 0 : *std::max_element(busy.begin(), busy.end());
}

double Timing::bubbleMakespan() const {
  return makespan == 0 ? 0 : 1 - static_cast<double>(work()) / static_cast<double>(makespan);
}

double Timing::bubbleLongestSpan() const {
  return longestSpan == 0 ? 0 : 1 - static_cast<double>(work()) / static_cast<double>(longestSpan);
}

llvm::Expected<Timing> timeSchedule(const Schedule &schedule, const ScheduleCosts &costs,
                                    PairRule pairs) {
  TableShape shape = TRY(checkTable(schedule, nullptr));
  if (costs.stages.size() != shape.stages)
    return failf(ExitCode::Usage, "costs: expected {} stages as the schedule has, got {}",
                 shape.stages, costs.stages.size());
  for (auto [from, to] : costs.skips)
    if (from >= to || to >= shape.stages)
      return failf(ExitCode::Usage, "costs: skip {} -> {}: expected a later one of {} stages", from,
                   to, shape.stages);
  return Timer(schedule, costs, shape, pairs).run();
}

int64_t makespanLowerBound(const ScheduleCosts &costs, const std::vector<size_t> &rankOfStage,
                           size_t ranks, int64_t microBatches, bool forwardOnly) {
  const size_t stages = rankOfStage.size();
  // The time until a stage's first input arrives, and after its last result is used: the path of
  // one micro-batch.
  std::vector<int64_t> forwardHead(stages, 0);
  auto hop = [&](size_t a, size_t b) {
    return rankOfStage[a] == rankOfStage[b] ? 0 : costs.latency;
  };
  for (size_t s = 1; s < stages; ++s)
    forwardHead[s] = forwardHead[s - 1] + costs.stages[s - 1].forward + hop(s - 1, s);
  struct RankBound {
    int64_t head = INT64_MAX, work = 0, after = INT64_MAX;
  };
  std::vector<RankBound> parts(ranks);
  for (size_t s = 0; s < stages; ++s) {
    const StageCosts &stage = costs.stages[s];
    RankBound &part = parts[rankOfStage[s]];
    part.head = std::min(part.head, forwardHead[s]);
    part.work += microBatches * (forwardOnly ? stage.forward : stage.work());
    // The time of all that must still run elsewhere after the rank's last action. With backward
    // that action may be a weight gradient, for which nothing waits.
    const int64_t last = forwardHead[stages - 1] + costs.stages[stages - 1].forward;
    part.after = std::min(part.after, forwardOnly ? last - forwardHead[s] - stage.forward : 0);
  }
  int64_t bound = 0;
  for (const RankBound &part : parts)
    if (part.head != INT64_MAX)
      bound = std::max(bound, part.head + part.work + part.after);
  // One micro-batch must go all the way there and back.
  int64_t way = 0;
  for (size_t s = 0; s < stages; ++s) {
    way += costs.stages[s].forward + (forwardOnly ? 0 : costs.stages[s].inputGrad);
    if (s > 0)
      way += (forwardOnly ? 1 : 2) * hop(s - 1, s);
  }
  if (!forwardOnly && stages > 0)
    way += costs.stages[0].weightGrad;
  return std::max(bound, way);
}

} // namespace pipec
