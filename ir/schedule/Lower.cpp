// Lowers a compute schedule to a program: adds sends and receives of values, and the ops after the
// last backward.
//
// For every action in a rank's order:  [TAKE its inputs from other ranks]  op  [SEND its results
// that other ranks read]. A lane delivers messages in order, so a TAKE of one message first takes
// all that were sent before it on the lane; they wait at the receiver. POST runs `window` messages
// ahead of TAKE.
//
// In training a rank first sends the weights that it owns. After the last backward of a stage its
// gradients are reduced (unless they are tied), and tied weights' gradients return. At the end, on
// every rank in the same order: returned gradients, replicated ties, remaining reductions, norm,
// optimizer. Replicas are copies of one another.
#include "ir/schedule/Lower.h"

#include "ir/schedule/FitCheck.h"
#include "ir/schedule/PlanGradients.h"
#include "ir/schedule/ProgramCheck.h"
#include "ir/schedule/Routes.h"
#include "ir/schedule/Simulate.h"
#include "ir/support/Try.h"
#include "llvm/ADT/STLExtras.h"

#include <set>

namespace pipec {
namespace {

constexpr size_t kLookAhead = 2; // micro-batches that a lane holds; 1f1b and forward-only need 1

class Lowering {
public:
  Lowering(const Schedule &schedule, const Plan &plan, const RunShape &shape)
      : schedule_(schedule), plan_(plan), shape_(shape), routes_(routesOf(plan, shape.train)),
        messages_(routes_.lanes.size()), least_(routes_.lanes.size(), 0),
        places_(routes_.routes.size() * static_cast<size_t>(shape.microBatches)) {
    for (size_t l = 0; l < messages_.size(); ++l)
      messages_[l].reserve(
          routes_.routesOfLane[l] *
          (isPerRun(routes_.lanes[l].payload) ? 1 : static_cast<size_t>(shape.microBatches)));
    orderMessages();
  }

  Program run(size_t lookAhead) {
    program_ = {};
    program_.lanes = routes_.lanes;
    for (size_t l = 0; l < program_.lanes.size(); ++l) {
      const size_t all = messages_[l].size();
      const size_t wanted = std::max(routes_.routesOfLane[l] * lookAhead, least_[l]);
      program_.lanes[l].window =
          isPerRun(program_.lanes[l].payload) ? all : std::max<size_t>(1, std::min(wanted, all));
    }
    taken_.assign(program_.lanes.size(), 0);
    posted_.assign(program_.lanes.size(), 0);
    program_.ranks.resize(plan_.ranks);
    makeGroups();
    for (size_t r = 0; r < plan_.ranks; ++r)
      lowerRank(r);
    copyReplicas();
    return std::move(program_);
  }

  /// Gives lanes the length at which stages of equal cost never wait for room: breadth-first orders
  /// make one rank run far ahead of another, and narrower lanes would hold it back. Errors: those
  /// of check().
  llvm::Error widen() {
    const Program program = run(largestUsefulLookAhead());
    ProgramCosts costs;
    costs.stages.assign(plan_.stages.size(), {4, 4, 4, 0, 0});
    costs.link.latency = 1;
    llvm::Expected<SimulatedRun> measured = simulate(program, plan_, shape_, costs, false);
    if (!measured) {
      llvm::consumeError(measured.takeError());
      return check(program, plan_, shape_);
    }
    // One more if the usual length is too short, because costs are not quite equal.
    for (size_t l = 0; l < least_.size(); ++l)
      if (const size_t most = measured->mostWaiting[l]; most > routes_.routesOfLane[l] * kLookAhead)
        least_[l] = most + 1;
    return llvm::Error::success();
  }

  /// With this look-ahead no send ever waits.
  size_t largestUsefulLookAhead() const {
    size_t most = 1;
    for (const std::vector<Message> &messages : messages_)
      most = std::max(most, messages.size());
    return most;
  }

private:
  struct Message {
    uint32_t route = 0;
    int32_t microBatch = 0;
  };

  size_t rankOf(size_t stage) const { return plan_.stages[stage].rank; }
  uint32_t &placeOf(uint32_t route, int64_t microBatch) {
    return places_[route * static_cast<size_t>(shape_.microBatches) +
                   static_cast<size_t>(microBatch)];
  }
  std::vector<size_t> stagesOf(size_t rank) const {
    std::vector<size_t> stages;
    for (size_t s = 0; s < plan_.stages.size(); ++s)
      if (rankOf(s) == rank)
        stages.push_back(s);
    return stages;
  }

  // --- what a rank sends, in order

  struct Progress {
    std::vector<int64_t> left;        // per stage: backwards still to come
    std::vector<uint32_t> unfinished; // per route: as Routes::readersOnRank
  };

  /// Calls `send(route, microBatch)` for the sends after an action on its rank. Returns whether the
  /// stage has just run its last backward.
  template <typename Send>
  bool forEachSend(const Action &action, Progress &progress, Send send) const {
    const bool forward = action.kind == ActionKind::Forward;
    if (forward || action.kind == ActionKind::FullBackward || action.kind == ActionKind::InputGrad)
      for (uint32_t route :
           (forward ? routes_.sendsOfForward : routes_.sendsOfBackward)[action.stage])
        send(route, action.microBatch);
    const bool last =
        (action.kind == ActionKind::FullBackward || action.kind == ActionKind::WeightGrad) &&
        --progress.left[action.stage] == 0;
    if (last)
      for (uint32_t route : routes_.weightGradsOut[action.stage])
        if (--progress.unfinished[route] == 0)
          send(route, 0);
    return last;
  }

  Progress startOf() const {
    return {std::vector<int64_t>(plan_.stages.size(), shape_.microBatches), routes_.readersOnRank};
  }

  void orderMessages() {
    auto add = [&](uint32_t route, int64_t microBatch) {
      std::vector<Message> &messages = messages_[routes_.routes[route].lane];
      placeOf(route, microBatch) = static_cast<uint32_t>(messages.size());
      messages.push_back({route, static_cast<int32_t>(microBatch)});
    };
    for (const Routes::List &routes : routes_.weightsOut)
      for (uint32_t route : routes)
        add(route, 0);
    Progress progress = startOf();
    for (const std::vector<Action> &actions : schedule_.ranks)
      for (const Action &action : actions)
        forEachSend(action, progress, add);
  }

  // --- the ops

  void emit(size_t rank, OpKind kind, const Message &message) {
    const Route &route = routes_.routes[message.route];
    program_.ranks[rank].push_back({kind, route.payload == Payload::Gradient ? route.maker : 0,
                                    route.channel, route.lane, message.microBatch, route.payload});
  }

  void postAhead(size_t l) {
    const Lane &lane = program_.lanes[l];
    for (; posted_[l] < messages_[l].size() && posted_[l] < taken_[l] + lane.window; ++posted_[l])
      emit(lane.to, OpKind::Post, messages_[l][posted_[l]]);
  }

  void take(uint32_t route, int64_t microBatch) {
    const size_t l = routes_.routes[route].lane;
    const size_t place = placeOf(route, isPerRun(routes_.routes[route].payload) ? 0 : microBatch);
    while (taken_[l] <= place) {
      emit(program_.lanes[l].to, OpKind::Take, messages_[l][taken_[l]]);
      ++taken_[l];
      postAhead(l);
    }
  }

  void lowerRank(size_t rank) {
    std::vector<Op> &ops = program_.ranks[rank];
    ops.reserve(countOps(rank));
    for (size_t l = 0; l < program_.lanes.size(); ++l)
      if (program_.lanes[l].to == rank)
        postAhead(l);
    const std::vector<size_t> stages = stagesOf(rank);
    auto send = [&](uint32_t route, int64_t microBatch) {
      emit(rank, OpKind::Send, {route, static_cast<int32_t>(microBatch)});
    };
    for (size_t s : stages)
      for (uint32_t route : routes_.weightsOut[s])
        send(route, 0);
    Progress progress = startOf();
    std::set<std::pair<size_t, int64_t>> recomputed; // the schedule itself recomputes these
    for (const Action &action : schedule_.ranks[rank])
      if (action.kind == ActionKind::Recompute)
        recomputed.insert({action.stage, action.microBatch});
    for (const Action &action : schedule_.ranks[rank]) {
      if (!isCompute(action.kind))
        continue;
      const bool backward =
          action.kind == ActionKind::FullBackward || action.kind == ActionKind::InputGrad;
      if (action.kind == ActionKind::Forward || backward)
        for (uint32_t route :
             (backward ? routes_.takesOfBackward : routes_.takesOfForward)[action.stage])
          take(route, action.microBatch);
      if (backward && shape_.recomputes(action.stage, action.microBatch) &&
          !recomputed.count({action.stage, action.microBatch}))
        ops.push_back({OpKind::Recompute, action.stage, 0, 0, action.microBatch});
      ops.push_back({opOf(action.kind), action.stage, 0, 0, action.microBatch});
      if (forEachSend(action, progress, send) && !isTied(action.stage))
        reduce(rank, action.stage);
    }
    if (shape_.train)
      finish(rank, stages);
  }

  size_t countOps(size_t rank) const {
    size_t count = schedule_.ranks[rank].size();
    for (size_t l = 0; l < program_.lanes.size(); ++l)
      count += messages_[l].size() *
               ((program_.lanes[l].from == rank ? 1 : 0) + (program_.lanes[l].to == rank ? 2 : 0));
    for (const Action &action : schedule_.ranks[rank])
      count +=
          action.kind != ActionKind::Forward && shape_.recomputes(action.stage, action.microBatch);
    return count + 2 * stagesOf(rank).size() + plan_.ties.size() + 2;
  }

  // --- what follows the last backward

  /// Its gradients are final only after ties.
  bool isTied(size_t stage) const {
    if (!routes_.weightsBack[stage].empty())
      return true;
    auto owns = [&](size_t c) {
      return llvm::any_of(plan_.channels[c].to,
                          [&](const PortRef &to) { return rankOf(to.stage) == rankOf(stage); });
    };
    return llvm::any_of(plan_.stages[stage].weightChannelsOut, owns) ||
           llvm::any_of(plan_.ties, [&](const Tie &tie) {
             return sumsGradient(plan_, tie) && llvm::is_contained(tie.stages, stage);
           });
  }

  void reduce(size_t rank, size_t stage) {
    if (shape_.replicas > 1)
      program_.ranks[rank].push_back({OpKind::Reduce, stage, 0, reduceGroup(rank)});
  }

  std::set<size_t> ranksOf(const Tie &tie) const {
    std::set<size_t> ranks;
    for (size_t s : tie.stages)
      ranks.insert(rankOf(s));
    return ranks;
  }

  void finish(size_t rank, const std::vector<size_t> &stages) {
    std::vector<Op> &ops = program_.ranks[rank];
    for (size_t s : stages)
      for (uint32_t route : routes_.weightsBack[s])
        take(route, 0);
    for (size_t t = 0; t < plan_.ties.size(); ++t)
      if (sumsGradient(plan_, plan_.ties[t]) && ranksOf(plan_.ties[t]).count(rank))
        ops.push_back({OpKind::TieReduce, 0, t, tieGroups_[t]});
    for (size_t s : stages)
      if (isTied(s))
        reduce(rank, s);
    if (shape_.norm)
      ops.push_back({OpKind::Norm, 0, 0, allGroup_});
    if (shape_.optimizer)
      for (size_t s : stages)
        ops.push_back({OpKind::Optimize, s});
  }

  // --- groups and replicas: first those of replica 0, then its copies, then one per rank of a
  // --- replica that joins all replicas

  void makeGroups() {
    if (!shape_.train)
      return;
    tieGroups_.assign(plan_.ties.size(), 0);
    auto add = [&](std::vector<size_t> ranks) {
      auto known = llvm::find(program_.groups, ranks);
      if (known != program_.groups.end())
        return static_cast<size_t>(known - program_.groups.begin());
      program_.groups.push_back(std::move(ranks));
      return program_.groups.size() - 1;
    };
    if (shape_.norm) {
      std::vector<size_t> all(plan_.ranks);
      for (size_t r = 0; r < all.size(); ++r)
        all[r] = r;
      allGroup_ = add(std::move(all));
    }
    for (size_t t = 0; t < plan_.ties.size(); ++t)
      if (sumsGradient(plan_, plan_.ties[t])) {
        const std::set<size_t> ranks = ranksOf(plan_.ties[t]);
        tieGroups_[t] = add({ranks.begin(), ranks.end()});
      }
    groupsOfReplica_ = program_.groups.size();
  }

  size_t reduceGroup(size_t rank) const { return groupsOfReplica_ * shape_.replicas + rank; }

  void copyReplicas() {
    if (shape_.replicas == 1)
      return;
    const size_t lanes = program_.lanes.size(), ranks = plan_.ranks;
    for (size_t k = 1; k < shape_.replicas; ++k) {
      for (size_t l = 0; l < lanes; ++l) {
        Lane lane = program_.lanes[l];
        lane.from += k * ranks;
        lane.to += k * ranks;
        program_.lanes.push_back(lane);
      }
      for (size_t g = 0; g < groupsOfReplica_; ++g) {
        std::vector<size_t> members = program_.groups[g];
        for (size_t &member : members)
          member += k * ranks;
        program_.groups.push_back(std::move(members));
      }
      for (size_t r = 0; r < ranks; ++r) {
        std::vector<Op> ops = program_.ranks[r];
        for (Op &op : ops)
          if (op.kind == OpKind::Post || op.kind == OpKind::Send || op.kind == OpKind::Take)
            op.lane += static_cast<uint32_t>(k * lanes);
          else if (isCollective(op.kind) && op.kind != OpKind::Reduce)
            op.lane += static_cast<uint32_t>(k * groupsOfReplica_);
        program_.ranks.push_back(std::move(ops));
      }
    }
    if (shape_.train)
      for (size_t r = 0; r < ranks; ++r) {
        std::vector<size_t> &members = program_.groups.emplace_back();
        for (size_t k = 0; k < shape_.replicas; ++k)
          members.push_back(k * ranks + r);
      }
  }

  const Schedule &schedule_;
  const Plan &plan_;
  const RunShape &shape_;
  const Routes routes_;
  std::vector<std::vector<Message>> messages_; // per lane: in the order of sending
  std::vector<size_t> least_;                  // per lane: the window
  std::vector<uint32_t> places_;               // per route and micro-batch: place in that order
  Program program_;
  std::vector<size_t> taken_, posted_; // per lane: how many so far
  std::vector<size_t> tieGroups_;      // per tie
  size_t allGroup_ = 0, groupsOfReplica_ = 0;
};

} // namespace

llvm::Expected<Program> lower(const Schedule &schedule, const Plan &plan, const RunShape &shape,
                              size_t lookAhead) {
  TRY(checkFit(schedule, plan, shape));
  auto misfitOf = [](llvm::Error error) {
    ErrorText text = describe(std::move(error));
    return makeError(ExitCode::Usage, "schedule: " + text.message, text.help);
  };
  Lowering lowering(schedule, plan, shape);
  if (lookAhead == 0 && shape.train)
    if (llvm::Error error = lowering.widen())
      return misfitOf(std::move(error));
  // A hand-written schedule may need more look-ahead than the default. With all messages in flight,
  // only its own order can still deadlock.
  for (lookAhead = lookAhead == 0 ? kLookAhead : lookAhead;; lookAhead *= 2) {
    Program program = lowering.run(lookAhead);
    llvm::Error error = check(program, plan, shape);
    if (!error)
      return program;
    if (lookAhead >= lowering.largestUsefulLookAhead())
      return misfitOf(std::move(error));
    llvm::consumeError(std::move(error));
  }
}

} // namespace pipec
