#include "ir/schedule/generators/Player.h"

#include "ir/support/Try.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <deque>
#include <queue>

namespace pipec {

namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

class Player {
public:
  Player(const ScheduleRequest &request, std::vector<size_t> rankOfStage, const Policy &policy)
      : request_(request), rankOfStage_(std::move(rankOfStage)), policy_(policy) {
    const auto cells = request.stages() * static_cast<size_t>(request.microBatches);
    forwardThere_.assign(cells, kNever);
    gradThere_.assign(cells, kNever);
    ranks_.resize(request.ranks);
    for (size_t s = 0; s < request.stages(); ++s)
      ranks_[rankOfStage_[s]].chunks.push_back({s, 0, 0});
    for (int64_t m = 0; m < request.microBatches; ++m)
      forwardThere_[cell(0, m)] = 0;
    mostAhead_.assign(request.stages(), kNever);
    int64_t after = 0; // there and back over the stages after `s`
    for (size_t s = request.stages(); s-- > 0;) {
      mostAhead_[s] = mostAhead(s, costs(s).forward + after);
      if (s > 0)
        after += costs(s).forward + costs(s).inputGrad + 2 * hop(s - 1, s);
    }
  }

  /// Returns nullopt if the ranks block each other under this policy and limit.
  std::optional<Schedule> play() {
    using Event = std::pair<int64_t, size_t>; // time, rank
    std::priority_queue<Event, std::vector<Event>, std::greater<>> events;
    for (size_t r = 0; r < ranks_.size(); ++r)
      events.push({0, r});
    while (!events.empty()) {
      auto [time, r] = events.top();
      events.pop();
      Rank &rank = ranks_[r];
      if (rank.doneAt > time)
        continue; // an outdated wake-up
      std::optional<Action> action = choose(r, time);
      if (!action)
        continue; // an arrival wakes it
      const int64_t end = time + start(r, *action, time);
      rank.doneAt = end;
      events.push({end, r});
      if (const int64_t arrival = arrivalOf(*action, end); arrival != kNever)
        events.push({arrival, receiverOf(*action)});
    }
    for (const Rank &rank : ranks_)
      for (const Chunk &chunk : rank.chunks)
        if (chunk.backwards < request_.microBatches)
          return std::nullopt;
    for (Rank &rank : ranks_) // weight gradients that were deferred to the end
      for (const Action &weight : rank.waiting)
        rank.actions.push_back(weight);
    Schedule schedule;
    for (Rank &rank : ranks_)
      schedule.ranks.push_back(std::move(rank.actions));
    return schedule;
  }

private:
  struct Chunk {
    size_t stage;
    int64_t forwards, backwards;
  };
  struct Rank {
    std::vector<Chunk> chunks;
    std::deque<Action> waiting; // weight gradients
    std::vector<Action> actions;
    int64_t doneAt = 0, held = 0;
    size_t nextInOrder = 0;
  };

  size_t cell(size_t stage, int64_t microBatch) const {
    return stage * static_cast<size_t>(request_.microBatches) + static_cast<size_t>(microBatch);
  }
  const StageCosts &costs(size_t stage) const { return request_.costs.stages[stage]; }

  /// `roundTrip`: from the start of the stage's first forward to the arrival of its gradient, when
  /// nothing waits.
  int64_t mostAhead(size_t stage, int64_t roundTrip) const {
    if (policy_.aheadPercent == 0)
      return kNever;
    const int64_t step = std::max<int64_t>(1, costs(stage).forward);
    return std::max<int64_t>(1, (roundTrip * policy_.aheadPercent / 100 + step - 1) / step +
                                    policy_.extra[rankOfStage_[stage]]);
  }

  /// What a rank holds more after I than before, until W has run.
  int64_t addedByInputGrad(size_t stage) const {
    return std::max<int64_t>(0, -costs(stage).freedByInputGrad);
  }

  /// Whether the forward may run now. One micro-batch must always be able to go all the way, so the
  /// last free room is reserved for the chunk nearest to the end, and for one I.
  bool fits(const Rank &rank, const Chunk &chunk) const {
    int64_t added = 0;
    for (const Chunk &each : rank.chunks)
      added = std::max(added, addedByInputGrad(each.stage));
    const int64_t held = rank.held + costs(chunk.stage).heldByForward + added;
    if (held > request_.memoryLimit)
      return false;
    if (policy_.order)
      return true;     // the given order decides
    int64_t later = 0; // room that micro-batches in flight still need on this rank
    for (const Chunk &other : rank.chunks)
      if (other.stage > chunk.stage)
        later = std::max(later, costs(other.stage).heldByForward);
    if (held + later > request_.memoryLimit)
      return false;
    return chunk.forwards - chunk.backwards < mostAhead_[chunk.stage];
  }

  std::optional<Action> choose(size_t r, int64_t time) {
    Rank &rank = ranks_[r];
    std::optional<Action> forward, grad;
    int64_t next = kNever; // next arrival of something that can run
    const Action *only = nextOf(r);
    auto allowed = [&](ActionKind kind, const Chunk &chunk) {
      return !only || (only->kind == kind && only->stage == chunk.stage);
    };
    for (const Chunk &chunk : rank.chunks) { // later stages win: they free memory, feed backwards
      if (allowed(ActionKind::InputGrad, chunk) && chunk.backwards < chunk.forwards) {
        const int64_t there = gradThere_[cell(chunk.stage, chunk.backwards)];
        if (there <= time)
          grad = Action{ActionKind::InputGrad, chunk.stage, chunk.backwards};
        else
          next = std::min(next, there);
      }
      if (allowed(ActionKind::Forward, chunk) && chunk.forwards < request_.microBatches &&
          fits(rank, chunk)) {
        const int64_t there = forwardThere_[cell(chunk.stage, chunk.forwards)];
        if (there <= time)
          forward = Action{ActionKind::Forward, chunk.stage, chunk.forwards};
        else
          next = std::min(next, there);
      }
    }
    if (forward && (policy_.forwardFirst || !grad))
      return forward;
    if (grad && !rank.waiting.empty() &&
        rank.held + addedByInputGrad(grad->stage) > request_.memoryLimit)
      return rank.waiting.front(); // makes room
    if (grad)
      return grad;
    if (rank.waiting.empty())
      return std::nullopt;
    const int64_t length = costs(rank.waiting.front().stage).weightGrad;
    if (next == kNever || next - time >= length * policy_.gapPercent[r] / 100)
      return rank.waiting.front();
    return std::nullopt;
  }

  /// The rank's next action in a given order; null without an order, or at its end.
  const Action *nextOf(size_t r) {
    if (!policy_.order)
      return nullptr;
    const std::vector<Action> &order = policy_.order->ranks[r];
    size_t &next = ranks_[r].nextInOrder;
    while (next < order.size() && order[next].kind == ActionKind::WeightGrad)
      ++next;
    return next < order.size() ? &order[next] : nullptr;
  }

  /// Notes the action and returns how long it takes.
  int64_t start(size_t r, const Action &action, int64_t time) {
    Rank &rank = ranks_[r];
    rank.actions.push_back(action);
    if (action.kind != ActionKind::WeightGrad)
      ++rank.nextInOrder;
    const StageCosts &cost = costs(action.stage);
    Chunk &chunk =
        *llvm::find_if(rank.chunks, [&](const Chunk &c) { return c.stage == action.stage; });
    if (action.kind == ActionKind::Forward) {
      ++chunk.forwards;
      rank.held += cost.heldByForward;
      const int64_t end = time + cost.forward;
      if (action.stage + 1 < request_.stages())
        forwardThere_[cell(action.stage + 1, action.microBatch)] =
            end + hop(action.stage, action.stage + 1);
      else
        gradThere_[cell(action.stage, action.microBatch)] = end;
      return cost.forward;
    }
    if (action.kind == ActionKind::InputGrad) {
      ++chunk.backwards;
      rank.held -= cost.freedByInputGrad;
      rank.waiting.push_back({ActionKind::WeightGrad, action.stage, action.microBatch});
      if (action.stage > 0)
        gradThere_[cell(action.stage - 1, action.microBatch)] =
            time + cost.inputGrad + hop(action.stage, action.stage - 1);
      return cost.inputGrad;
    }
    rank.waiting.pop_front();
    rank.held -= cost.freedByWeightGrad();
    return cost.weightGrad;
  }

  int64_t hop(size_t from, size_t to) const {
    return rankOfStage_[from] == rankOfStage_[to] ? 0 : request_.costs.latency;
  }

  int64_t arrivalOf(const Action &action, int64_t) const {
    if (action.kind == ActionKind::Forward && action.stage + 1 < request_.stages())
      return forwardThere_[cell(action.stage + 1, action.microBatch)];
    if (action.kind == ActionKind::InputGrad && action.stage > 0)
      return gradThere_[cell(action.stage - 1, action.microBatch)];
    return kNever;
  }
  size_t receiverOf(const Action &action) const {
    return rankOfStage_[action.kind == ActionKind::Forward ? action.stage + 1 : action.stage - 1];
  }

  const ScheduleRequest &request_;
  std::vector<size_t> rankOfStage_;
  const Policy &policy_;
  std::vector<Rank> ranks_;
  std::vector<int64_t> mostAhead_; // per stage
  std::vector<int64_t> forwardThere_,
      gradThere_; // per stage and micro-batch: when its input is there
};

} // namespace

std::optional<Schedule> play(const ScheduleRequest &request, Placement placement,
                             const Policy &policy) {
  return Player(request, rankOfStages(placement, request.ranks, request.chunks), policy).play();
}

int64_t Scored::peak() const {
  return *std::max_element(timing.peakBytes.begin(), timing.peakBytes.end());
}

llvm::Expected<Scored> score(Schedule schedule, const ScheduleRequest &request) {
  Timing timing = TRY(timeSchedule(schedule, request.costs));
  return Scored{std::move(schedule), std::move(timing)};
}

} // namespace pipec
