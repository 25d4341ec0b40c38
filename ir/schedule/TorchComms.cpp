#include "ir/schedule/TorchComms.h"

#include "ir/support/Error.h"
#include "ir/support/Try.h"

#include <map>
#include <optional>
#include <set>

namespace pipec {
namespace {

template <typename... Args>
llvm::Error notForTorch(fmt::format_string<Args...> format, Args &&...args) {
  return makeError(
      ExitCode::Usage, "program: " + fmt::format(format, std::forward<Args>(args)...),
      "take the compute schedule alone: --csv of pipe-schedule, schedule.csv of an artifact");
}

llvm::Error checkChannels(const Plan &plan) {
  for (size_t c = 0; c < plan.channels.size(); ++c) {
    const Channel &channel = plan.channels[c];
    if (channel.kind == Channel::Kind::Weight)
      return notForTorch("channel {} ({}) transmits a weight: PyTorch's tables cannot express it",
                         c, channel.name);
    for (const PortRef &to : channel.to)
      if (to.stage != channel.from.stage + 1)
        return notForTorch("channel {} ({}) goes from stage {} to stage {}: PyTorch sends to the "
                           "next stage only",
                           c, channel.name, channel.from.stage, to.stage);
  }
  return llvm::Error::success();
}

/// The action of an op, if PyTorch has one.
std::optional<Action> actionOf(const Op &op, const Plan &plan) {
  if (op.kind == OpKind::Send || op.kind == OpKind::Take) {
    const size_t from = plan.channels[op.channel].from.stage;
    const bool send = op.kind == OpKind::Send;
    if (op.payload == Payload::Activation)
      return Action{send ? ActionKind::SendForward : ActionKind::ReceiveForward,
                    send ? from : from + 1, op.microBatch};
    return Action{send ? ActionKind::SendBackward : ActionKind::ReceiveBackward,
                  send ? from + 1 : from, op.microBatch};
  }
  // A REDUCE is written after the last backward.
  if (!isCompute(op.kind) || op.kind == OpKind::Recompute)
    return std::nullopt;
  return Action{actionOf(op.kind), op.stage, op.microBatch};
}

/// PyTorch sends everything between two ranks over one connection without tags: receives come in
/// the order of the sends, values and gradients alike. A rank that needs a message first receives
/// the messages sent before it.
class TorchTable {
public:
  TorchTable(const Program &program, const Plan &plan) : program_(program), plan_(plan) {}

  Schedule run() {
    for (size_t r = 0; r < plan_.ranks; ++r)
      readSends(r);
    for (size_t r = 0; r < plan_.ranks; ++r)
      schedule_.ranks.push_back(row(r));
    return std::move(schedule_);
  }

private:
  using Ends = std::pair<size_t, size_t>;
  using Key = std::tuple<ActionKind, size_t, int64_t>;
  /// Between two ranks: receives in the order of the sends, and how many were written.
  struct Connection {
    std::vector<Action> receives;
    size_t received = 0;
  };

  static bool isLastPiece(const Op &op) {
    return op.kind == OpKind::Backward || op.kind == OpKind::WeightGrad;
  }
  static Key keyOf(const Action &action) { return {action.kind, action.stage, action.microBatch}; }
  Ends endsOf(const Op &op) const {
    return {program_.lanes[op.lane].from, program_.lanes[op.lane].to};
  }

  void readSends(size_t rank) {
    for (Op op : program_.ranks[rank]) {
      if (op.kind != OpKind::Send)
        continue;
      op.kind = OpKind::Take;
      const Action receive = *actionOf(op, plan_);
      if (sent_.insert(keyOf(receive)).second) // the channels of a stage go together
        connections_[endsOf(op)].receives.push_back(receive);
    }
  }

  std::vector<Action> row(size_t rank) {
    std::vector<Action> actions;
    std::set<Key> there;
    auto write = [&](const Action &action) {
      if (there.insert(keyOf(action)).second)
        actions.push_back(action);
    };
    // After its last backward and the sends that others wait for: PyTorch scales the gradients of
    // a stage there, with replicas or without.
    std::vector<uint32_t> finished;
    auto reduce = [&] {
      for (uint32_t stage : finished)
        write({ActionKind::ReduceGrad, stage, -1});
      finished.clear();
    };
    std::map<uint32_t, size_t> backwards;
    for (const Op &op : program_.ranks[rank])
      backwards[op.stage] += isLastPiece(op);
    for (const Op &op : program_.ranks[rank]) {
      const std::optional<Action> action = actionOf(op, plan_);
      if (!action)
        continue;
      if (op.kind == OpKind::Take) {
        Connection &connection = connections_[endsOf(op)];
        while (!there.count(keyOf(*action)) && connection.received < connection.receives.size())
          write(connection.receives[connection.received++]);
      }
      if (op.kind != OpKind::Send)
        reduce();
      write(*action);
      if (isLastPiece(op) && --backwards[op.stage] == 0)
        finished.push_back(op.stage);
    }
    reduce();
    return actions;
  }

  const Program &program_;
  const Plan &plan_;
  Schedule schedule_;
  std::map<Ends, Connection> connections_;
  std::set<Key> sent_;
};

} // namespace

llvm::Expected<Schedule> toTorchComms(const Program &program, const Plan &plan) {
  TRY(checkChannels(plan));
  for (size_t r = 0; r < plan.ranks; ++r)
    for (const Op &op : program.ranks[r])
      if (op.kind == OpKind::Recompute)
        return notForTorch("stage {} is recomputed: PyTorch's tables cannot express it", op.stage);
  return TorchTable(program, plan).run();
}

} // namespace pipec
