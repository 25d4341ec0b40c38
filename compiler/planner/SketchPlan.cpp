#include "compiler/planner/SketchPlan.h"

#include <algorithm>

namespace pipec {

Plan sketchPlan(const std::vector<size_t> &rankOfStage, Mode mode) {
  Plan plan;
  plan.mode = mode;
  plan.microBatches = 1;
  for (size_t rank : rankOfStage) {
    plan.stages.emplace_back().rank = rank;
    plan.ranks = std::max(plan.ranks, rank + 1);
  }
  return plan;
}

void addChannel(Plan &plan, size_t from, const std::vector<size_t> &consumers, int64_t bytes) {
  const size_t index = plan.channels.size();
  Channel channel;
  channel.name = "c" + std::to_string(index);
  channel.type = "Tensor";
  channel.tensor.known = channel.tensor.requiresGrad = true;
  channel.tensor.bytes = bytes;
  channel.from = {from, plan.stages[from].outputs.size()};
  plan.stages[from].outputs.push_back({channel.name, "Tensor", {index}, {}, std::nullopt});
  for (size_t to : consumers) {
    channel.to.push_back({to, plan.stages[to].inputs.size()});
    plan.stages[to].inputs.push_back({channel.name, "Tensor", StageInput::Kind::Channel, index});
    channel.skip |= to != from + 1;
  }
  plan.channels.push_back(std::move(channel));
}

void addTie(Plan &plan, const std::vector<size_t> &stages, int64_t bytes, Tie::Mode mode) {
  StageAttribute weight;
  weight.name = "w" + std::to_string(plan.ties.size());
  weight.requiresGrad = true;
  weight.bytes = bytes;
  const size_t owner = stages.front(), index = plan.channels.size();
  plan.ties.push_back({{weight.name}, stages, mode, owner});
  if (mode == Tie::Mode::Replicate) {
    for (size_t stage : stages)
      plan.stages[stage].attributes.push_back(weight);
    return;
  }
  Channel channel;
  channel.name = weight.name;
  channel.kind = Channel::Kind::Weight;
  channel.type = "Tensor";
  channel.tensor.known = true;
  channel.tensor.bytes = bytes;
  channel.from = {owner, plan.stages[owner].attributes.size()};
  plan.stages[owner].attributes.push_back(weight);
  plan.stages[owner].weightChannelsOut.push_back(index);
  weight.channel = index;
  for (size_t reader : stages)
    if (reader != owner) {
      channel.to.push_back({reader, plan.stages[reader].attributes.size()});
      plan.stages[reader].attributes.push_back(weight);
    }
  plan.channels.push_back(std::move(channel));
}

} // namespace pipec
