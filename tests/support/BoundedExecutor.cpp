#include "tests/support/BoundedExecutor.h"

#include "ir/schedule/PlanGradients.h"
#include "ir/schedule/Program.h"

#include <array>
#include <deque>
#include <map>
#include <optional>
#include <set>

namespace pipec {

namespace {

/// A value by name: what it is, and up to three numbers.
using Name = std::array<int64_t, 4>;
enum What : int64_t {
  Activation,     // channel, micro-batch
  PartialGrad,    // channel, micro-batch, stage that left it
  Weight,         // channel
  ReturnedWeight, // channel, from rank: gradient of a transmitted weight, back at its owner
  Ran,            // kind, stage, micro-batch
  Summed,         // tie
  Reduced,        // stage
  NormKnown,
  Updated,  // stage
  SentOnce, // lane, then the message's identity folded
};

struct Stop {
  Verdict verdict;
  std::string why;
};

class BoundedExecutor {
public:
  BoundedExecutor(const Program &program, const Plan &plan, const RunShape &shape)
      : program_(program), plan_(plan), shape_(shape) {}

  Outcome run() {
    try {
      prepare();
      for (bool moved = true; moved;) {
        moved = false;
        for (rank_ = 0; rank_ < ranks_.size(); ++rank_)
          while (tryOne())
            moved = true;
      }
      for (rank_ = 0; rank_ < ranks_.size(); ++rank_)
        if (ranks_[rank_].next < program_.ranks[rank_].size())
          throw Stop{Verdict::Deadlock, here() + " never goes on"};
      atTheEnd();
    } catch (const Stop &stop) {
      return {stop.verdict, stop.why};
    }
    return {};
  }

private:
  struct Rank {
    size_t next = 0;
    std::set<Name> has;
    std::map<size_t, std::deque<Op>> posted; // per lane
    bool inCollective = false;
  };

  std::string here() const {
    const size_t next = ranks_[rank_].next;
    return "rank " + std::to_string(rank_) + ", op " + std::to_string(next) + " " +
           (next < program_.ranks[rank_].size() ? toString(program_.ranks[rank_][next]) : "");
  }
  [[noreturn]] void stop(Verdict verdict, const std::string &why) const {
    throw Stop{verdict, here() + ": " + why};
  }
  void demand(bool condition, Verdict verdict, const char *why) const {
    if (!condition)
      stop(verdict, why);
  }
  Rank &me() { return ranks_[rank_]; }
  bool has(const Name &name) { return me().has.count(name) > 0; }
  void put(const Name &name) {
    if (!me().has.insert(name).second)
      stop(Verdict::Repeated, "was done before");
  }
  size_t inPlan(size_t rank) const { return rank % plan_.ranks; }
  bool mine(size_t stage) const {
    return stage < plan_.stages.size() && plan_.stages[stage].rank == inPlan(rank_);
  }
  bool ran(OpKind kind, size_t stage, int64_t m) {
    return has({Ran, static_cast<int64_t>(kind), static_cast<int64_t>(stage), m});
  }
  bool backwardRan(size_t stage, int64_t m) {
    return ran(OpKind::Backward, stage, m) || ran(OpKind::InputGrad, stage, m);
  }
  bool finished(size_t stage) {
    for (int64_t m = 0; m < shape_.microBatches; ++m)
      if (!ran(OpKind::Backward, stage, m) && !ran(OpKind::WeightGrad, stage, m))
        return false;
    return true;
  }

  void prepare() {
    ranks_.resize(program_.ranks.size());
    demand(ranks_.size() == plan_.ranks * shape_.replicas, Verdict::Misfit, "number of ranks");
    queues_.resize(program_.lanes.size());
    for (rank_ = 0; rank_ < ranks_.size(); ++rank_)
      for (size_t c = 0; shape_.train && c < plan_.channels.size(); ++c)
        if (plan_.channels[c].kind == Channel::Kind::Weight && mine(plan_.channels[c].from.stage))
          put({Weight, static_cast<int64_t>(c)});
  }

  bool tryOne() {
    if (me().next >= program_.ranks[rank_].size())
      return false;
    const Op &op = program_.ranks[rank_][me().next];
    const bool moved = step(op);
    if (moved)
      ++me().next;
    return moved;
  }

  bool step(const Op &op) {
    switch (op.kind) {
    case OpKind::Forward:
    case OpKind::Recompute:
      forward(op);
      return true;
    case OpKind::Backward:
    case OpKind::InputGrad:
      backward(op);
      return true;
    case OpKind::WeightGrad:
      demand(mine(op.stage) && shape_.train, Verdict::Misfit, "not a stage of this rank");
      demand(ran(OpKind::InputGrad, op.stage, op.microBatch), Verdict::MissingValue,
             "no input gradient");
      markRan(op);
      return true;
    case OpKind::Post: {
      fits(op);
      std::deque<Op> &posted = me().posted[op.lane];
      posted.push_back(op);
      demand(posted.size() <= program_.lanes[op.lane].window, Verdict::WrongOrder,
             "too many posted");
      return true;
    }
    case OpKind::Send:
      return send(op);
    case OpKind::Take:
      return take(op);
    case OpKind::Optimize:
      demand(mine(op.stage) && shape_.train && shape_.optimizer, Verdict::Misfit, "no such update");
      final(op.stage, true);
      demand(!shape_.norm || has({NormKnown}), Verdict::MissingValue, "the norm");
      put({Updated, op.stage});
      return true;
    default:
      return collective(op);
    }
  }

  void markRan(const Op &op) {
    demand(op.microBatch >= 0 && op.microBatch < shape_.microBatches, Verdict::Misfit,
           "no such micro-batch");
    put({Ran, static_cast<int64_t>(op.kind), op.stage, op.microBatch});
  }

  void forward(const Op &op) {
    demand(mine(op.stage), Verdict::Misfit, "not a stage of this rank");
    const bool again = op.kind == OpKind::Recompute;
    if (again) {
      demand(shape_.recomputes(op.stage, op.microBatch), Verdict::Misfit, "not recomputed");
      demand(ran(OpKind::Forward, op.stage, op.microBatch) && !backwardRan(op.stage, op.microBatch),
             Verdict::MissingValue, "nothing kept to recompute from");
    }
    for (const StageInput &input : plan_.stages[op.stage].inputs)
      if (input.kind == StageInput::Kind::Channel)
        demand(has({Activation, static_cast<int64_t>(input.index), op.microBatch}),
               Verdict::MissingValue, "an input");
    for (const StageAttribute &attribute : plan_.stages[op.stage].attributes)
      if (attribute.channel && shape_.train)
        demand(has({Weight, static_cast<int64_t>(*attribute.channel)}), Verdict::MissingValue,
               "a weight");
    markRan(op);
    for (size_t c = 0; !again && c < plan_.channels.size(); ++c)
      if (plan_.channels[c].kind == Channel::Kind::Activation &&
          plan_.channels[c].from.stage == op.stage)
        put({Activation, static_cast<int64_t>(c), op.microBatch});
  }

  /// The consumer of a channel that follows `stage`; gradients come from there.
  std::optional<size_t> after(const Channel &channel, size_t stage) const {
    std::optional<size_t> result;
    for (const PortRef &to : channel.to)
      if (to.stage > stage && (!result || to.stage < *result))
        result = to.stage;
    return result;
  }

  void backward(const Op &op) {
    demand(mine(op.stage) && shape_.train, Verdict::Misfit, "not a stage of this rank");
    demand(ran(OpKind::Forward, op.stage, op.microBatch), Verdict::MissingValue, "no forward");
    if (shape_.recomputes(op.stage, op.microBatch))
      demand(ran(OpKind::Recompute, op.stage, op.microBatch), Verdict::MissingValue, "not again");
    if (backwardRan(op.stage, op.microBatch))
      stop(Verdict::Repeated, "the backward was done before");
    for (size_t c = 0; c < plan_.channels.size(); ++c) {
      const Channel &channel = plan_.channels[c];
      bool reads = false;
      for (const PortRef &to : channel.to)
        reads |= to.stage == op.stage;
      if (channel.kind != Channel::Kind::Activation || !carriesGradient(plan_, channel) ||
          (!reads && channel.from.stage != op.stage))
        continue;
      if (std::optional<size_t> next = after(channel, op.stage))
        demand(
            has({PartialGrad, static_cast<int64_t>(c), op.microBatch, static_cast<int64_t>(*next)}),
            Verdict::MissingValue, "a gradient");
      if (reads)
        put({PartialGrad, static_cast<int64_t>(c), op.microBatch, op.stage});
    }
    markRan(op);
  }

  // --- messages

  /// Is there such a message on such a lane at all?
  void fits(const Op &op) const {
    demand(op.lane < program_.lanes.size() && op.channel < plan_.channels.size(), Verdict::Misfit,
           "no such lane or channel");
    const Lane &lane = program_.lanes[op.lane];
    const Channel &channel = plan_.channels[op.channel];
    demand(lane.payload == op.payload, Verdict::Misfit, "another lane");
    demand(rank_ == (op.kind == OpKind::Send ? lane.from : lane.to), Verdict::Misfit, "other end");
    demand(op.microBatch >= 0 && op.microBatch < shape_.microBatches, Verdict::Misfit,
           "no such micro-batch");
    const bool weight = op.payload == Payload::Weight || op.payload == Payload::WeightGradient;
    demand(weight == (channel.kind == Channel::Kind::Weight), Verdict::Misfit, "kind of channel");
    demand(shape_.train || op.payload == Payload::Activation, Verdict::Misfit, "an inference");
    const size_t source = inPlan(lane.from), target = inPlan(lane.to);
    const size_t producer = plan_.stages[channel.from.stage].rank;
    bool travels = false;
    if (op.payload == Payload::Gradient) {
      std::optional<size_t> maker;
      std::vector<size_t> way{channel.from.stage};
      while (std::optional<size_t> next = after(channel, way.back()))
        way.push_back(*next);
      for (size_t i = 1; i < way.size(); ++i)
        travels |= way[i] == op.stage && plan_.stages[way[i]].rank == source &&
                   plan_.stages[way[i - 1]].rank == target && source != target;
    } else {
      const bool back = op.payload == Payload::WeightGradient;
      for (const PortRef &to : channel.to)
        travels |= plan_.stages[to.stage].rank == (back ? source : target);
      travels &= producer == (back ? target : source) && source != target;
    }
    const bool gradient = op.payload == Payload::Gradient || op.payload == Payload::WeightGradient;
    demand(travels && (!gradient || carriesGradient(plan_, channel)), Verdict::Misfit,
           "not on the way of this channel");
  }

  bool send(const Op &op) {
    fits(op);
    std::deque<Op> &queue = queues_[op.lane];
    if (queue.size() >= program_.lanes[op.lane].window)
      return false;
    const Channel &channel = plan_.channels[op.channel];
    switch (op.payload) {
    case Payload::Activation:
      demand(has({Activation, op.channel, op.microBatch}), Verdict::MissingValue, "not made");
      break;
    case Payload::Gradient:
      demand(has({PartialGrad, op.channel, op.microBatch, op.stage}), Verdict::MissingValue,
             "not made");
      break;
    case Payload::Weight:
      demand(!has({Updated, static_cast<int64_t>(channel.from.stage)}), Verdict::MissingValue,
             "of the next step already");
      break;
    case Payload::WeightGradient:
      for (const PortRef &to : channel.to)
        demand(!mine(to.stage) || finished(to.stage), Verdict::MissingValue, "not summed");
      break;
    }
    put({SentOnce, op.lane, (static_cast<int64_t>(op.channel) << 20) + op.stage, op.microBatch});
    queue.push_back(op);
    return true;
  }

  bool take(const Op &op) {
    fits(op);
    std::deque<Op> &posted = me().posted[op.lane];
    Op asPosted = op;
    asPosted.kind = OpKind::Post;
    demand(!posted.empty() && posted.front() == asPosted, Verdict::WrongOrder, "was not posted");
    std::deque<Op> &queue = queues_[op.lane];
    if (queue.empty())
      return false;
    Op asSent = op;
    asSent.kind = OpKind::Send;
    demand(queue.front() == asSent, Verdict::WrongOrder, "another message comes first");
    queue.pop_front();
    posted.pop_front();
    switch (op.payload) {
    case Payload::Activation:
      put({Activation, op.channel, op.microBatch});
      break;
    case Payload::Gradient:
      put({PartialGrad, op.channel, op.microBatch, op.stage});
      break;
    case Payload::Weight:
      put({Weight, op.channel});
      break;
    case Payload::WeightGradient:
      put({ReturnedWeight, op.channel, static_cast<int64_t>(inPlan(program_.lanes[op.lane].from))});
      break;
    }
    return true;
  }

  // --- after the last backward

  /// Stops unless all that adds to the weights of a stage is summed.
  void final(size_t stage, bool reduced) {
    demand(finished(stage), Verdict::MissingValue, "backwards left");
    for (size_t c = 0; c < plan_.channels.size(); ++c) {
      const Channel &channel = plan_.channels[c];
      if (channel.kind != Channel::Kind::Weight || channel.from.stage != stage ||
          !carriesGradient(plan_, channel))
        continue;
      for (const PortRef &to : channel.to) {
        const bool there = mine(to.stage)
                               ? finished(to.stage)
                               : has({ReturnedWeight, static_cast<int64_t>(c),
                                      static_cast<int64_t>(plan_.stages[to.stage].rank)});
        demand(there, Verdict::MissingValue, "a gradient of a transmitted weight");
      }
    }
    for (size_t t = 0; t < plan_.ties.size(); ++t)
      for (size_t s : plan_.ties[t].stages)
        demand(s != stage || !sumsGradient(plan_, plan_.ties[t]) ||
                   has({Summed, static_cast<int64_t>(t)}),
               Verdict::MissingValue, "a tie");
    if (reduced && shape_.replicas > 1)
      demand(has({Reduced, static_cast<int64_t>(stage)}), Verdict::MissingValue, "a reduction");
  }

  bool collective(const Op &op) {
    if (!me().inCollective) {
      enter(op);
      me().inCollective = true;
    }
    const std::vector<size_t> &members = program_.groups[op.group()];
    for (size_t member : members) {
      const Rank &other = ranks_[member];
      if (!other.inCollective)
        return false;
      const Op &theirs = program_.ranks[member][other.next];
      if (theirs.group() != op.group())
        return false; // it waits in another collective
      demand(theirs == op, Verdict::WrongOrder, "another collective comes first");
    }
    for (size_t member : members) {
      ranks_[member].inCollective = false;
      if (member != rank_)
        ++ranks_[member].next;
    }
    return true;
  }

  void enter(const Op &op) {
    demand(shape_.train && op.group() < program_.groups.size(), Verdict::Misfit, "no such group");
    std::set<size_t> expected;
    const size_t first = rank_ - inPlan(rank_);
    if (op.kind == OpKind::Reduce) {
      demand(mine(op.stage) && shape_.replicas > 1, Verdict::Misfit, "no such reduction");
      final(op.stage, false);
      put({Reduced, op.stage});
      for (size_t k = 0; k < shape_.replicas; ++k)
        expected.insert(k * plan_.ranks + inPlan(rank_));
    } else if (op.kind == OpKind::TieReduce) {
      demand(op.tie() < plan_.ties.size() && sumsGradient(plan_, plan_.ties[op.tie()]),
             Verdict::Misfit, "no such tie");
      for (size_t s : plan_.ties[op.tie()].stages) {
        demand(!mine(s) || finished(s), Verdict::MissingValue, "backwards left");
        expected.insert(first + plan_.stages[s].rank);
      }
      put({Summed, op.tie()});
    } else {
      demand(shape_.norm, Verdict::Misfit, "not asked");
      for (size_t s = 0; s < plan_.stages.size(); ++s)
        if (mine(s))
          final(s, true);
      put({NormKnown});
      for (size_t r = 0; r < plan_.ranks; ++r)
        expected.insert(first + r);
    }
    const std::vector<size_t> &group = program_.groups[op.group()];
    demand(std::set<size_t>(group.begin(), group.end()) == expected, Verdict::Misfit,
           "another group");
    demand(expected.count(rank_) > 0, Verdict::Misfit, "not in the group");
  }

  void atTheEnd() {
    for (size_t l = 0; l < queues_.size(); ++l)
      if (!queues_[l].empty())
        throw Stop{Verdict::Unfinished, "a message is left on lane " + std::to_string(l)};
    auto done = [&](bool condition, const std::string &what) {
      if (!condition)
        throw Stop{Verdict::Unfinished, "rank " + std::to_string(rank_) + ": " + what};
    };
    for (rank_ = 0; rank_ < ranks_.size(); ++rank_) {
      for (const auto &[lane, posted] : me().posted)
        done(posted.empty(), "posted and not taken");
      for (size_t s = 0; s < plan_.stages.size(); ++s) {
        if (!mine(s))
          continue;
        for (int64_t m = 0; m < shape_.microBatches; ++m)
          done(ran(OpKind::Forward, s, m), "a forward is missing");
        if (!shape_.train)
          continue;
        final(s, true);
        done(!shape_.optimizer || has({Updated, static_cast<int64_t>(s)}), "no update");
      }
      done(!shape_.train || !shape_.norm || has({NormKnown}), "no norm");
    }
  }

  const Program &program_;
  const Plan &plan_;
  const RunShape &shape_;
  size_t rank_ = 0;
  std::vector<Rank> ranks_;
  std::vector<std::deque<Op>> queues_;
};

} // namespace

const char *toString(Verdict verdict) {
  constexpr const char *words[] = {"runs",        "misfit",   "missing value", "repeated",
                                   "wrong order", "deadlock", "unfinished"};
  return words[static_cast<size_t>(verdict)];
}

Outcome execute(const Program &program, const Plan &plan, const RunShape &shape) {
  return BoundedExecutor(program, plan, shape).run();
}

} // namespace pipec
