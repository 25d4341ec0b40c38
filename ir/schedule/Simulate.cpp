// A run of a program in time: events in order of their times, one rank moving at each.
//
// A computing rank has an event at its end. A waiting rank has none until the time of what it waits
// for is known (a message's arrival, room on a lane, the last member of a collective, its device).
#include "ir/schedule/Simulate.h"

#include "ir/schedule/OpMemory.h"
#include "ir/schedule/PlanGradients.h"
#include "ir/schedule/Program.h"
#include "ir/schedule/ProgramCosts.h"
#include "ir/schedule/simulate/CostsFit.h"
#include "ir/schedule/simulate/Links.h"
#include "ir/schedule/simulate/Rounds.h"
#include "ir/support/Error.h"
#include "ir/support/Try.h"
#include "llvm/ADT/STLExtras.h"

#include <deque>
#include <queue>

namespace pipec {
namespace {

class Simulator {
public:
  Simulator(const Program &program, const Plan &plan, const RunShape &shape,
            const ProgramCosts &costs, bool keepIntervals)
      : program_(program), plan_(plan), shape_(shape), costs_(costs), keep_(keepIntervals),
        memory_(plan, shape, costs), links_(costs), ranks_(program.ranks.size()),
        lanes_(program.lanes.size()), groups_(program.groups.size()) {
    prepare();
  }

  llvm::Expected<SimulatedRun> run() {
    for (size_t r = 0; r < ranks_.size(); ++r)
      wake(r, 0);
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      now_ = event.time;
      advance(event.rank);
    }
    for (size_t r = 0; r < ranks_.size(); ++r)
      if (ranks_[r].next < program_.ranks[r].size())
        return failf(ExitCode::BadArtifact,
                     "program: rank {}, op {} ({}) never runs: check() gives the reason", r,
                     ranks_[r].next, toString(program_.ranks[r][ranks_[r].next]));
    summarise();
    return std::move(result_);
  }

private:
  struct Event {
    int64_t time = 0;
    uint64_t order = 0; // of events at one time, the first known comes first
    size_t rank = 0;
    bool operator<(const Event &other) const { // the earliest on top of the queue
      return time != other.time ? time > other.time : order > other.order;
    }
  };
  struct RankState {
    size_t next = 0;
    bool computing = false, queued = false /*for its device*/, entered = false /*a collective*/;
    int64_t end = 0, firstStart = -1, lastEnd = 0;
    int64_t held = 0;
    size_t reductions = 0; // under way
    int64_t reductionsEnd = 0;
  };
  struct LaneState {
    std::deque<int64_t> arrivals; // of messages that were sent and not taken
    size_t medium = 0;
    bool senderWaits = false, receiverWaits = false;
  };
  struct Device {
    bool busy = false;
    std::deque<size_t> waiting;
  };
  void wake(size_t rank, int64_t time) { events_.push({time, order_++, rank}); }

  void prepare() {
    for (size_t l = 0; l < lanes_.size(); ++l)
      lanes_[l].medium = links_.between(program_.lanes[l].from, program_.lanes[l].to);
    for (size_t r = 0; r < ranks_.size(); ++r)
      deviceOf_.push_back(costs_.deviceOfRank.empty() ? r : costs_.deviceOfRank[r]);
    devices_.resize(deviceOf_.empty() ? 0
                                      : *std::max_element(deviceOf_.begin(), deviceOf_.end()) + 1);
    result_.mostWaiting.assign(lanes_.size(), 0);
    result_.busy.assign(ranks_.size(), 0);
    result_.peakBytes.assign(ranks_.size(), 0);
    if (keep_) {
      result_.ranks.resize(ranks_.size());
      for (size_t r = 0; r < ranks_.size(); ++r)
        result_.ranks[r].resize(program_.ranks[r].size());
    }
  }

  // --- memory

  void hold(size_t rank, int64_t bytes) {
    ranks_[rank].held += bytes;
    result_.peakBytes[rank] = std::max(result_.peakBytes[rank], ranks_[rank].held);
  }
  // --- ops

  void note(size_t rank, size_t op, int64_t start, int64_t end) {
    if (keep_)
      result_.ranks[rank][op] = {start, end};
    result_.makespan = std::max(result_.makespan, end);
  }

  int64_t durationOf(const Op &op) const {
    const StageCosts &stage = costs_.stages[op.stage];
    switch (op.kind) {
    case OpKind::Forward:
      return stage.forward;
    case OpKind::Backward:
      return costs_.wholeBackwardNs(op.stage);
    case OpKind::InputGrad:
      return stage.inputGrad;
    case OpKind::WeightGrad:
      return stage.weightGrad;
    case OpKind::Recompute:
      return costs_.recompute.empty() ? stage.forward : costs_.recompute[op.stage];
    default: // Optimize
      return costs_.optimize.empty() ? 0 : costs_.optimize[op.stage];
    }
  }

  /// Runs the ops that a rank can run at this time, until it must wait.
  void advance(size_t rank) {
    RankState &state = ranks_[rank];
    if (now_ < state.end)
      return; // an outdated event
    if (state.computing)
      finishCompute(rank);
    const std::vector<Op> &ops = program_.ranks[rank];
    while (state.next < ops.size()) {
      const Op &op = ops[state.next];
      switch (op.kind) {
      case OpKind::Post:
        hold(rank, memory_.atStart(op));
        note(rank, state.next, now_, now_);
        break;
      case OpKind::Send:
        if (!send(rank, op))
          return;
        break;
      case OpKind::Take:
        if (!take(rank, op))
          return;
        break;
      case OpKind::Reduce:
        enter(rank, op);
        ++state.reductions;
        completeRounds(op.group());
        break;
      case OpKind::TieReduce:
      case OpKind::Norm:
        if (!state.entered && reductionsDone(rank)) {
          state.entered = true;
          enter(rank, op);
          completeRounds(op.group());
        }
        return;
      default:
        if (op.kind == OpKind::Optimize && !reductionsDone(rank))
          return;
        compute(rank);
        return;
      }
      ++state.next;
    }
  }

  void compute(size_t rank) {
    RankState &state = ranks_[rank];
    Device &device = devices_[deviceOf_[rank]];
    if (device.busy) {
      if (!state.queued)
        device.waiting.push_back(rank);
      state.queued = true;
      return;
    }
    const Op &op = program_.ranks[rank][state.next];
    device.busy = state.computing = true;
    state.queued = false;
    state.end = now_ + durationOf(op);
    if (state.firstStart < 0)
      state.firstStart = now_;
    result_.peakBytes[rank] =
        std::max(result_.peakBytes[rank], state.held + memory_.mostDuring(op));
    state.held += memory_.atStart(op);
    note(rank, state.next, now_, state.end);
    result_.busy[rank] += state.end - now_;
    wake(rank, state.end);
  }

  void finishCompute(size_t rank) {
    RankState &state = ranks_[rank];
    state.computing = false;
    state.lastEnd = state.end;
    hold(rank, -memory_.atEnd(rank, program_.ranks[rank][state.next]));
    ++state.next;
    Device &device = devices_[deviceOf_[rank]];
    device.busy = false;
    if (device.waiting.empty())
      return;
    const size_t other = device.waiting.front();
    device.waiting.pop_front();
    ranks_[other].queued = false;
    compute(other);
  }

  bool send(size_t rank, const Op &op) {
    LaneState &lane = lanes_[op.lane];
    if (lane.arrivals.size() >= program_.lanes[op.lane].window) {
      lane.senderWaits = true;
      return false;
    }
    const int64_t arrival = links_.send(lane.medium, memory_.bytesOf(op), now_);
    lane.arrivals.push_back(arrival);
    size_t &most = result_.mostWaiting[op.lane];
    most = std::max(most, lane.arrivals.size());
    hold(rank, memory_.sentBytes(op));
    note(rank, ranks_[rank].next, now_, now_);
    if (std::exchange(lane.receiverWaits, false))
      wake(program_.lanes[op.lane].to, arrival);
    return true;
  }

  bool take(size_t rank, const Op &op) {
    LaneState &lane = lanes_[op.lane];
    if (lane.arrivals.empty()) {
      lane.receiverWaits = true;
      return false;
    }
    if (lane.arrivals.front() > now_) {
      wake(rank, lane.arrivals.front());
      return false;
    }
    lane.arrivals.pop_front();
    hold(rank, memory_.atStart(op));
    hold(program_.lanes[op.lane].from, -memory_.sentBytes(op));
    note(rank, ranks_[rank].next, now_, now_);
    if (std::exchange(lane.senderWaits, false))
      wake(program_.lanes[op.lane].from, now_);
    return true;
  }

  // --- collectives

  bool reductionsDone(size_t rank) {
    RankState &state = ranks_[rank];
    if (state.reductions > 0)
      return false; // the last of them wakes the rank
    if (state.reductionsEnd > now_) {
      wake(rank, state.reductionsEnd);
      return false;
    }
    return true;
  }

  void enter(size_t rank, const Op &op) {
    groups_[op.group()].enter({rank, ranks_[rank].next}, now_);
  }

  /// A collective at which all members have arrived by `earliest`.
  Timing::Interval runCollective(const Op &op, int64_t earliest) {
    const std::vector<size_t> &ranks = program_.groups[op.group()];
    if (op.kind == OpKind::Norm)
      return {earliest, earliest + costs_.norm + costs_.treeNs(ranks)};
    return links_.reduce(ranks,
                         op.kind == OpKind::TieReduce ? bytesOfTie(plan_.ties[op.tie()])
                                                      : gradientBytes(plan_, op.stage),
                         earliest);
  }

  int64_t bytesOfTie(const Tie &tie) const {
    for (const StageAttribute &attribute : plan_.stages[tie.owner].attributes)
      if (llvm::is_contained(tie.names, attribute.name))
        return attribute.bytes;
    return 0;
  }

  /// Collectives of a group run one after the other.
  void completeRounds(size_t g) {
    Rounds &group = groups_[g];
    while (const std::optional<Rounds::Round> round = group.complete(program_.groups[g].size())) {
      const Op &op = program_.ranks[round->here[0].rank][round->here[0].op];
      const auto [start, end] = runCollective(op, std::max(round->lastCame, group.free));
      group.free = end;
      for (auto [rank, index] : round->here) {
        RankState &state = ranks_[rank];
        note(rank, index, start, end);
        if (op.kind == OpKind::Reduce) {
          state.reductionsEnd = std::max(state.reductionsEnd, end);
          --state.reductions;
        } else {
          state.entered = false;
          state.end = end;
          ++state.next;
        }
        wake(rank, end);
      }
    }
  }

  void summarise() {
    for (const RankState &state : ranks_)
      if (state.firstStart >= 0)
        result_.longestSpan = std::max(result_.longestSpan, state.lastEnd - state.firstStart);
    result_.lowerBound = runLowerBound(plan_, shape_, costs_);
  }

  const Program &program_;
  const Plan &plan_;
  const RunShape &shape_;
  const ProgramCosts &costs_;
  const bool keep_;
  OpMemory memory_;
  Links links_;
  SimulatedRun result_;
  int64_t now_ = 0;
  uint64_t order_ = 0;
  std::priority_queue<Event> events_;
  std::vector<RankState> ranks_;
  std::vector<LaneState> lanes_;
  std::vector<Rounds> groups_;
  std::vector<Device> devices_;
  std::vector<size_t> deviceOf_; // per rank
};

} // namespace

llvm::Expected<SimulatedRun> simulate(const Program &program, const Plan &plan,
                                      const RunShape &shape, const ProgramCosts &costs,
                                      bool keepIntervals) {
  TRY(checkCosts(program, plan, costs));
  return Simulator(program, plan, shape, costs, keepIntervals).run();
}

} // namespace pipec
