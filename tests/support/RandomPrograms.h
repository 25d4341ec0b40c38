// Random but valid trainings for tests: plans with skips and both kinds of tie, run shapes, and
// schedules in any order that the plan allows.
#pragma once

#include "ir/schedule/Program.h"
#include "tests/support/SamplePlan.h"

#include <algorithm>
#include <set>

namespace pipec {

inline size_t below(std::mt19937 &random, size_t n) {
  return std::uniform_int_distribution<size_t>(0, n - 1)(random);
}

inline RunShape trainingOf(int64_t microBatches) {
  RunShape shape;
  shape.microBatches = microBatches;
  shape.train = true;
  return shape;
}

/// A weight that stage `owner` holds and `readers` are sent.
inline void transmitWeight(Plan &plan, size_t owner, const std::vector<size_t> &readers,
                           bool requiresGrad = true) {
  Channel channel;
  channel.name = "w" + std::to_string(plan.channels.size());
  channel.kind = Channel::Kind::Weight;
  channel.type = "Tensor";
  channel.from = {owner, plan.stages[owner].attributes.size()};
  StageAttribute attribute;
  attribute.name = channel.name;
  attribute.requiresGrad = requiresGrad;
  plan.stages[owner].attributes.push_back(attribute);
  plan.stages[owner].weightChannelsOut.push_back(plan.channels.size());
  attribute.channel = plan.channels.size();
  for (size_t reader : readers) {
    channel.to.push_back({reader, plan.stages[reader].attributes.size()});
    plan.stages[reader].attributes.push_back(attribute);
  }
  plan.channels.push_back(channel);
}

/// A weight of which every one of `stages` holds a copy.
inline void replicateWeight(Plan &plan, const std::vector<size_t> &stages) {
  StageAttribute attribute;
  attribute.name = "r" + std::to_string(plan.ties.size());
  attribute.requiresGrad = true;
  for (size_t stage : stages)
    plan.stages[stage].attributes.push_back(attribute);
  plan.ties.push_back({{attribute.name}, stages, Tie::Mode::Replicate, stages.front()});
}

inline Plan randomTrainingPlan(std::mt19937 &random) {
  Plan plan = randomPlan(random);
  plan.mode = Mode::Train;
  const size_t stages = plan.stages.size();
  for (Channel &channel : plan.channels)
    if (below(random, 8) == 0)
      channel.type = "int"; // no gradient
  auto some = [&](size_t from) {
    std::vector<size_t> result;
    for (size_t s = from; s < stages; ++s)
      if (below(random, 2) || (s + 1 == stages && result.empty()))
        result.push_back(s);
    return result;
  };
  if (stages > 1 && below(random, 2))
    transmitWeight(plan, 0, some(1), below(random, 4) != 0);
  if (stages > 1 && below(random, 2))
    replicateWeight(plan, some(0));
  return plan;
}

inline RunShape randomShape(std::mt19937 &random, const Plan &plan) {
  RunShape shape;
  shape.microBatches = 1 + static_cast<int64_t>(below(random, 4));
  shape.train = plan.mode == Mode::Train;
  shape.replicas = 1 + (below(random, 3) == 0);
  for (size_t s = 0; s < plan.stages.size(); ++s)
    shape.recompute.push_back(below(random, 4) == 0);
  shape.norm = below(random, 2);
  shape.optimizer = below(random, 4) != 0;
  return shape;
}

/// Takes any action that can run next until all have run.
inline Schedule randomSchedule(std::mt19937 &random, const Plan &plan, const RunShape &shape) {
  using K = ActionKind;
  Schedule schedule;
  schedule.ranks.resize(plan.ranks);
  const bool split = below(random, 2);
  std::set<std::tuple<K, size_t, int64_t>> done;
  auto has = [&](K kind, size_t s, int64_t m) { return done.count({kind, s, m}) > 0; };
  auto backwardOf = [&](size_t s, int64_t m) {
    return has(K::FullBackward, s, m) || has(K::InputGrad, s, m);
  };
  auto canRun = [&](K kind, size_t s, int64_t m) {
    if (has(kind, s, m))
      return false;
    for (const Channel &channel : plan.channels) {
      if (channel.kind == Channel::Kind::Weight)
        continue;
      bool reads = false;
      for (const PortRef &to : channel.to)
        reads |= to.stage == s;
      if (kind == K::Forward && reads && !has(K::Forward, channel.from.stage, m))
        return false;
      if (kind != K::FullBackward && kind != K::InputGrad)
        continue;
      if (reads || channel.from.stage == s) // after every later consumer
        for (const PortRef &to : channel.to)
          if (to.stage > s && !backwardOf(to.stage, m))
            return false;
    }
    if (kind == K::WeightGrad)
      return has(K::InputGrad, s, m);
    return kind == K::Forward || (has(K::Forward, s, m) && !backwardOf(s, m));
  };
  std::vector<K> kinds{K::Forward};
  if (shape.train && split)
    kinds.insert(kinds.end(), {K::InputGrad, K::WeightGrad});
  else if (shape.train)
    kinds.push_back(K::FullBackward);
  const size_t total = plan.stages.size() * static_cast<size_t>(shape.microBatches) * kinds.size();
  while (done.size() < total) {
    std::vector<Action> ready;
    for (K kind : kinds)
      for (size_t s = 0; s < plan.stages.size(); ++s)
        for (int64_t m = 0; m < shape.microBatches; ++m)
          if (canRun(kind, s, m))
            ready.push_back({kind, s, m});
    const Action action = ready[below(random, ready.size())];
    done.insert({action.kind, action.stage, action.microBatch});
    schedule.ranks[plan.stages[action.stage].rank].push_back(action);
  }
  return schedule;
}

} // namespace pipec
