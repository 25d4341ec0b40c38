// Can a program be run? Judged from the program and the plan alone; shares no code with Lower.cpp.
//
// First every rank's ops are read once in order (what is there, and before what), then the lanes
// are compared end to end, then the ranks are run against each other with bounded lanes and no
// notion of time: if some rank cannot go on, ranks wait in a cycle.
#include "ir/schedule/Program.h"
#include "ir/schedule/ProgramText.h"
#include "llvm/ADT/STLExtras.h"

#include <deque>
#include <set>

namespace pipec {
namespace {

using Message = std::pair<size_t, int64_t>; // channel, micro-batch

class Checker {
public:
  Checker(const Program &program, const Plan &plan, int64_t microBatches)
      : program_(program), plan_(plan), microBatches_(microBatches) {}

  llvm::Error run() {
    if (llvm::Error error = shape())
      return error;
    for (size_t r = 0; r < program_.ranks.size(); ++r)
      if (llvm::Error error = readRank(r))
        return error;
    if (llvm::Error error = allForwards())
      return error;
    if (llvm::Error error = laneOrders())
      return error;
    return execute();
  }

private:
  struct LaneState {
    std::vector<Message> sent, taken, posted;
    std::set<Message> sentOnce;
  };

  static llvm::Error bad(const std::string &message) {
    return makeError(ExitCode::BadArtifact, "program: " + message);
  }
  std::string at(size_t rank, size_t index) const {
    return fmt::format("rank {}, op {} ({})", rank, index, toString(program_.ranks[rank][index]));
  }
  size_t rankOf(size_t stage) const { return plan_.stages[stage].rank; }

  llvm::Error shape() {
    if (program_.ranks.size() != plan_.ranks)
      return bad(fmt::format("expected {} ranks as the plan has, got {}", plan_.ranks,
                             program_.ranks.size()));
    std::set<std::pair<size_t, size_t>> pairs;
    for (size_t l = 0; l < program_.lanes.size(); ++l) {
      const Lane &lane = program_.lanes[l];
      bool ends = lane.from < plan_.ranks && lane.to < plan_.ranks && lane.from != lane.to;
      if (!ends || lane.window < 1 || !pairs.insert({lane.from, lane.to}).second)
        return bad(fmt::format("lane {}: expected two ranks of its own and a window of at least 1, "
                               "got {} -> {} window={}",
                               l, lane.from, lane.to, lane.window));
    }
    lanes_.resize(program_.lanes.size());
    return llvm::Error::success();
  }

  /// One rank in its own order: what a forward reads is there before it, what is sent was computed
  /// before.
  llvm::Error readRank(size_t rank) {
    std::set<std::pair<size_t, int64_t>> ran; // stage, micro-batch
    std::set<Message> here;                   // values taken
    for (size_t i = 0; i < program_.ranks[rank].size(); ++i) {
      const Op &op = program_.ranks[rank][i];
      if (op.microBatch < 0 || op.microBatch >= microBatches_)
        return bad(fmt::format("{}: there are {} micro-batches", at(rank, i), microBatches_));
      llvm::Error error = op.kind == OpKind::Forward ? readForward(rank, i, ran, here)
                                                     : readTransfer(rank, i, ran, here);
      if (error)
        return error;
    }
    return llvm::Error::success();
  }

  llvm::Error readForward(size_t rank, size_t i, std::set<std::pair<size_t, int64_t>> &ran,
                          const std::set<Message> &here) {
    const Op &op = program_.ranks[rank][i];
    if (op.stage >= plan_.stages.size())
      return bad(fmt::format("{}: the plan has {} stages", at(rank, i), plan_.stages.size()));
    if (rankOf(op.stage) != rank)
      return bad(fmt::format("{}: the plan has stage {} on rank {}", at(rank, i), op.stage,
                             rankOf(op.stage)));
    for (const StageInput &input : plan_.stages[op.stage].inputs) {
      if (input.kind != StageInput::Kind::Channel)
        continue;
      const Channel &channel = plan_.channels[input.index];
      bool local = rankOf(channel.from.stage) == rank;
      bool ready = local ? ran.count({channel.from.stage, op.microBatch})
                         : here.count({input.index, op.microBatch});
      if (!ready)
        return bad(fmt::format("{}: input {} (channel {}) is not there yet", at(rank, i),
                               input.name, input.index));
    }
    if (!ran.insert({op.stage, op.microBatch}).second)
      return bad(fmt::format("{}: runs a second time", at(rank, i)));
    ++forwards_;
    return llvm::Error::success();
  }

  llvm::Error readTransfer(size_t rank, size_t i, const std::set<std::pair<size_t, int64_t>> &ran,
                           std::set<Message> &here) {
    const Op &op = program_.ranks[rank][i];
    if (op.lane >= program_.lanes.size())
      return bad(fmt::format("{}: there are {} lanes", at(rank, i), program_.lanes.size()));
    if (op.channel >= plan_.channels.size() ||
        plan_.channels[op.channel].kind != Channel::Kind::Activation)
      return bad(fmt::format("{}: the plan has no activation channel {}", at(rank, i), op.channel));
    const Channel &channel = plan_.channels[op.channel];
    const Lane &lane = program_.lanes[op.lane];
    bool read =
        llvm::any_of(channel.to, [&](const PortRef &to) { return rankOf(to.stage) == lane.to; });
    if (rankOf(channel.from.stage) != lane.from || !read)
      return bad(fmt::format("{}: the channel does not go from rank {} to rank {}", at(rank, i),
                             lane.from, lane.to));
    if (rank != (op.kind == OpKind::Send ? lane.from : lane.to))
      return bad(fmt::format("{}: this end of the lane is on rank {}", at(rank, i),
                             op.kind == OpKind::Send ? lane.from : lane.to));

    LaneState &state = lanes_[op.lane];
    Message message{op.channel, op.microBatch};
    if (op.kind == OpKind::Send) {
      if (!ran.count({channel.from.stage, op.microBatch}))
        return bad(
            fmt::format("{}: stage {} has not made it yet", at(rank, i), channel.from.stage));
      if (!state.sentOnce.insert(message).second)
        return bad(fmt::format("{}: is sent a second time", at(rank, i)));
      state.sent.push_back(message);
    } else if (op.kind == OpKind::Post) {
      state.posted.push_back(message);
      if (state.posted.size() - state.taken.size() > lane.window)
        return bad(fmt::format("{}: more than {} messages posted ahead", at(rank, i), lane.window));
    } else {
      if (state.taken.size() >= state.posted.size() || state.posted[state.taken.size()] != message)
        return bad(fmt::format("{}: was not posted before, in this order", at(rank, i)));
      state.taken.push_back(message);
      here.insert(message);
    }
    return llvm::Error::success();
  }

  llvm::Error allForwards() {
    // Nothing ran twice, so the count alone says whether all are there.
    if (forwards_ == plan_.stages.size() * static_cast<size_t>(microBatches_))
      return llvm::Error::success();
    std::set<std::pair<size_t, int64_t>> ran;
    for (const std::vector<Op> &ops : program_.ranks)
      for (const Op &op : ops)
        if (op.kind == OpKind::Forward)
          ran.insert({op.stage, op.microBatch});
    for (size_t s = 0; s < plan_.stages.size(); ++s)
      for (int64_t m = 0; m < microBatches_; ++m)
        if (!ran.count({s, m}))
          return bad(fmt::format("rank {}: F {} mb={} is missing", rankOf(s), s, m));
    return llvm::Error::success();
  }

  llvm::Error laneOrders() {
    for (size_t l = 0; l < lanes_.size(); ++l) {
      const LaneState &state = lanes_[l];
      auto name = [](const Message &message) {
        return fmt::format("ch={} mb={}", message.first, message.second);
      };
      size_t common = std::min(state.sent.size(), state.taken.size());
      for (size_t k = 0; k < common; ++k)
        if (state.sent[k] != state.taken[k])
          return bad(fmt::format("lane {}: message {}: rank {} sends {}, but rank {} takes {}", l,
                                 k, program_.lanes[l].from, name(state.sent[k]),
                                 program_.lanes[l].to, name(state.taken[k])));
      if (state.sent.size() > common)
        return bad(fmt::format("lane {}: rank {} sends {}, which rank {} never takes", l,
                               program_.lanes[l].from, name(state.sent[common]),
                               program_.lanes[l].to));
      if (state.taken.size() > common)
        return bad(fmt::format("lane {}: rank {} takes {}, which rank {} never sends", l,
                               program_.lanes[l].to, name(state.taken[common]),
                               program_.lanes[l].from));
      if (state.posted.size() > state.taken.size())
        return bad(fmt::format("lane {}: rank {} posts {}, but never takes it", l,
                               program_.lanes[l].to, name(state.posted[state.taken.size()])));
    }
    return llvm::Error::success();
  }

  /// The rank that has to move before `op` can, or nothing when it can go on.
  std::optional<size_t> waitsFor(const Op &op) const {
    if (op.kind != OpKind::Send && op.kind != OpKind::Take)
      return std::nullopt;
    const Lane &lane = program_.lanes[op.lane];
    size_t waiting = waiting_[op.lane];
    if (op.kind == OpKind::Send)
      return waiting >= lane.window ? std::optional(lane.to) : std::nullopt;
    return waiting == 0 ? std::optional(lane.from) : std::nullopt;
  }

  llvm::Error execute() {
    waiting_.assign(program_.lanes.size(), 0);
    next_.assign(program_.ranks.size(), 0);
    std::deque<size_t> runnable;
    for (size_t r = 0; r < program_.ranks.size(); ++r)
      runnable.push_back(r);
    while (!runnable.empty()) {
      size_t rank = runnable.front();
      runnable.pop_front();
      const std::vector<Op> &ops = program_.ranks[rank];
      for (; next_[rank] < ops.size() && !waitsFor(ops[next_[rank]]); ++next_[rank]) {
        const Op &op = ops[next_[rank]];
        if (op.kind != OpKind::Send && op.kind != OpKind::Take)
          continue;
        waiting_[op.lane] += op.kind == OpKind::Send ? 1 : -1;
        const Lane &lane = program_.lanes[op.lane];
        size_t peer = op.kind == OpKind::Send ? lane.to : lane.from;
        if (!llvm::is_contained(runnable, peer))
          runnable.push_back(peer); // it may have waited for this
      }
    }
    for (size_t r = 0; r < program_.ranks.size(); ++r)
      if (next_[r] < program_.ranks[r].size())
        return deadlock(r);
    return llvm::Error::success();
  }

  /// Every stuck rank waits for one that is stuck as well (the lanes agree end to end), so
  /// following them ends in a cycle.
  llvm::Error deadlock(size_t rank) {
    std::vector<size_t> way;
    while (!llvm::is_contained(way, rank)) {
      way.push_back(rank);
      rank = *waitsFor(program_.ranks[rank][next_[rank]]);
    }
    std::string cycle;
    for (auto it = llvm::find(way, rank); it != way.end(); ++it)
      cycle += at(*it, next_[*it]) + " waits for ";
    return bad("deadlock: " + cycle + fmt::format("rank {}", rank));
  }

  const Program &program_;
  const Plan &plan_;
  int64_t microBatches_;
  size_t forwards_ = 0;
  std::vector<LaneState> lanes_;
  std::vector<size_t> waiting_; // per lane: messages sent and not taken
  std::vector<size_t> next_;    // per rank: the op it is at
};

} // namespace

llvm::Error check(const Program &program, const Plan &plan, int64_t microBatches) {
  return Checker(program, plan, microBatches).run();
}

} // namespace pipec
