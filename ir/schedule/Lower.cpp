// From a compute schedule to a program: where values are sent and taken.
//
// For every forward in a rank's order:  [TAKE what it reads from other ranks]  F  [SEND what other
// ranks read of it] A lane hands messages over in order, so a TAKE of one message first takes all
// that were sent before it on the lane; they wait at the receiver. POST runs `window` messages
// ahead of TAKE.
#include "ir/schedule/Program.h"
#include "llvm/ADT/STLExtras.h"

#include <map>
#include <set>

namespace pipec {
namespace {

using Message = std::pair<size_t, int64_t>; // channel, micro-batch

constexpr size_t kLookAhead = 2; // micro-batches that a lane holds; forwardOnly needs 1

template <typename... Args> llvm::Error misfit(fmt::format_string<Args...> format, Args &&...args) {
  return failf(ExitCode::Usage, "schedule: {}", fmt::format(format, std::forward<Args>(args)...));
}

/// Every forward once, on the rank where the plan has its stage.
llvm::Error checkSchedule(const Schedule &schedule, const Plan &plan, int64_t microBatches) {
  if (schedule.ranks.size() != plan.ranks)
    return misfit("expected {} ranks as the plan has, got {}", plan.ranks, schedule.ranks.size());
  std::set<std::pair<size_t, int64_t>> seen;
  for (size_t r = 0; r < schedule.ranks.size(); ++r)
    for (const Action &action : schedule.ranks[r]) {
      if (action.kind != ActionKind::Forward)
        return misfit("rank {}: {}: only forward actions can be run in an inference", r,
                      toString(action));
      if (action.stage >= plan.stages.size())
        return misfit("rank {}: {}: the plan has {} stages", r, toString(action),
                      plan.stages.size());
      if (action.microBatch >= microBatches)
        return misfit("rank {}: {}: there are {} micro-batches", r, toString(action), microBatches);
      if (plan.stages[action.stage].rank != r)
        return misfit("rank {}: {}: the plan has stage {} on rank {}", r, toString(action),
                      action.stage, plan.stages[action.stage].rank);
      if (!seen.insert({action.stage, action.microBatch}).second)
        return misfit("rank {}: {} appears twice", r, toString(action));
    }
  for (size_t s = 0; s < plan.stages.size(); ++s)
    for (int64_t m = 0; m < microBatches; ++m)
      if (!seen.count({s, m}))
        return misfit("{} is missing", toString(Action{ActionKind::Forward, s, m}));
  return llvm::Error::success();
}

class Lowering {
public:
  Lowering(const Schedule &schedule, const Plan &plan) : schedule_(schedule), plan_(plan) {
    makeLanes();
    orderMessages();
  }

  Program run(size_t lookAhead) {
    program_.ranks.assign(schedule_.ranks.size(), {});
    for (size_t l = 0; l < program_.lanes.size(); ++l)
      program_.lanes[l].window =
          std::max<size_t>(1, std::min(perMicroBatch_[l] * lookAhead, messages_[l].size()));
    taken_.assign(program_.lanes.size(), 0);
    posted_.assign(program_.lanes.size(), 0);
    for (size_t r = 0; r < schedule_.ranks.size(); ++r) {
      for (size_t l = 0; l < program_.lanes.size(); ++l)
        if (program_.lanes[l].to == r)
          postAhead(l);
      for (const Action &action : schedule_.ranks[r])
        lowerForward(action);
    }
    return program_;
  }

  /// From here on no send ever waits.
  size_t largestUsefulLookAhead() const {
    size_t most = 1;
    for (const std::vector<Message> &messages : messages_)
      most = std::max(most, messages.size());
    return most;
  }

private:
  size_t rankOf(size_t stage) const { return plan_.stages[stage].rank; }

  /// Other ranks that read a channel, ascending.
  std::set<size_t> readers(const Channel &channel) const {
    std::set<size_t> ranks;
    for (const PortRef &to : channel.to)
      ranks.insert(rankOf(to.stage));
    ranks.erase(rankOf(channel.from.stage));
    return ranks;
  }

  void makeLanes() {
    std::map<std::pair<size_t, size_t>, size_t> counts;
    for (const Channel &channel : plan_.channels)
      if (channel.kind == Channel::Kind::Activation)
        for (size_t to : readers(channel))
          ++counts[{rankOf(channel.from.stage), to}];
    for (const auto &[ends, count] : counts) {
      laneOf_[ends] = program_.lanes.size();
      program_.lanes.push_back({ends.first, ends.second, 1});
      perMicroBatch_.push_back(count);
    }
  }

  /// Calls `visit(channel, lane)` for what a stage sends after a forward, in order of its outputs.
  void forEachSend(size_t stage, llvm::function_ref<void(size_t, size_t)> visit) const {
    for (const StageOutput &output : plan_.stages[stage].outputs)
      for (size_t c : output.channels)
        for (size_t to : readers(plan_.channels[c]))
          visit(c, laneOf_.at({rankOf(stage), to}));
  }

  void orderMessages() {
    messages_.resize(program_.lanes.size());
    positions_.resize(program_.lanes.size());
    for (const std::vector<Action> &actions : schedule_.ranks)
      for (const Action &action : actions)
        forEachSend(action.stage, [&](size_t c, size_t l) {
          positions_[l][{c, action.microBatch}] = messages_[l].size();
          messages_[l].push_back({c, action.microBatch});
        });
  }

  void emit(size_t rank, OpKind kind, size_t lane, const Message &message) {
    program_.ranks[rank].push_back({kind, 0, message.first, lane, message.second});
  }

  void postAhead(size_t l) {
    const Lane &lane = program_.lanes[l];
    for (; posted_[l] < messages_[l].size() && posted_[l] < taken_[l] + lane.window; ++posted_[l])
      emit(lane.to, OpKind::Post, l, messages_[l][posted_[l]]);
  }

  void takeUpTo(size_t l, size_t position) {
    for (; taken_[l] <= position;) {
      emit(program_.lanes[l].to, OpKind::Take, l, messages_[l][taken_[l]]);
      ++taken_[l];
      postAhead(l);
    }
  }

  void lowerForward(const Action &action) {
    size_t rank = rankOf(action.stage);
    for (const StageInput &input : plan_.stages[action.stage].inputs) {
      if (input.kind != StageInput::Kind::Channel)
        continue;
      size_t from = rankOf(plan_.channels[input.index].from.stage);
      if (from == rank)
        continue;
      size_t l = laneOf_.at({from, rank});
      takeUpTo(l, positions_[l].at({input.index, action.microBatch}));
    }
    program_.ranks[rank].push_back({OpKind::Forward, action.stage, 0, 0, action.microBatch});
    forEachSend(action.stage, [&](size_t c, size_t l) {
      emit(rank, OpKind::Send, l, {c, action.microBatch});
    });
  }

  const Schedule &schedule_;
  const Plan &plan_;
  Program program_;
  std::map<std::pair<size_t, size_t>, size_t> laneOf_; // (from, to) -> lane
  std::vector<size_t> perMicroBatch_;                  // per lane: messages of one micro-batch
  std::vector<std::vector<Message>> messages_;         // per lane: in the order of sending
  std::vector<std::map<Message, size_t>> positions_;   // per lane: where a message is in that order
  std::vector<size_t> taken_, posted_;                 // per lane: how many so far
};

} // namespace

llvm::Expected<Program> lower(const Schedule &schedule, const Plan &plan, int64_t microBatches) {
  if (llvm::Error error = checkSchedule(schedule, plan, microBatches))
    return error;
  Lowering lowering(schedule, plan);
  // A hand-written schedule may need more look-ahead than the usual; with all messages in flight
  // only its own order can still deadlock.
  for (size_t lookAhead = kLookAhead;; lookAhead *= 2) {
    Program program = lowering.run(lookAhead);
    llvm::Error error = check(program, plan, microBatches);
    if (!error)
      return program;
    ErrorText text = describe(std::move(error));
    if (lookAhead >= lowering.largestUsefulLookAhead())
      return makeError(ExitCode::Usage, "schedule: " + text.message, text.help);
  }
}

} // namespace pipec
