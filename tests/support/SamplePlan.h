// Valid plans for tests: one with every feature, and chains with skips of any size.
#pragma once

#include "compiler/planner/SketchPlan.h"
#include "ir/plan/Chain.h"
#include "ir/plan/DefaultValue.h"
#include "ir/plan/Plan.h"
#include "ir/plan/PlanNames.h"

#include <random>

namespace pipec {

/// Adds a channel and the ports at its ends; consumers must be ascending. Nothing is known of what
/// it carries.
inline void connect(Plan &plan, size_t from, std::vector<size_t> consumers) {
  addChannel(plan, from, consumers, 0);
  plan.channels.back().tensor = {};
}

/// Stages without channels: the first reads the model's input, the last makes its output.
inline Plan emptyPlan(const std::vector<size_t> &rankOfStage) {
  Plan plan;
  plan.toolVersion = "0.0.0";
  plan.torchVersion = "2.11.0";
  plan.sourceDigest = "sha256:" + std::string(64, 'a');
  plan.microBatches = 4;
  plan.ranks = 0;
  InputSpec input;
  input.name = "x";
  input.type = "Tensor";
  input.batchDim = 0;
  plan.signature.inputs.push_back(input);
  OutputLeaf leaf;
  leaf.type = "Tensor";
  leaf.merge = {MergeRule::Kind::Concat, 0};
  plan.signature.leaves.push_back(leaf);
  for (size_t s = 0; s < rankOfStage.size(); ++s) {
    StagePlan stage;
    stage.file = "stage-" + std::to_string(s) + ".pt";
    stage.rank = rankOfStage[s];
    plan.ranks = std::max(plan.ranks, rankOfStage[s] + 1);
    plan.stages.push_back(std::move(stage));
  }
  plan.stages.front().inputs.push_back({"x", "Tensor", StageInput::Kind::UserInput, 0});
  plan.stages.back().outputs.push_back({"y", "Tensor", {}, {0}, std::nullopt});
  return plan;
}

/// 0 -> 1 -> ... with one channel each.
inline Plan chainPlan(const std::vector<size_t> &rankOfStage) {
  Plan plan = emptyPlan(rankOfStage);
  for (size_t s = 0; s + 1 < rankOfStage.size(); ++s)
    connect(plan, s, {s + 1});
  plan.chain = chainBreak(plan).empty();
  return plan;
}

/// A chain plus random further channels, some with several consumers, and stages on random ranks.
inline Plan randomPlan(std::mt19937 &random) {
  auto below = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random); };
  size_t stages = 1 + below(6), ranks = 1 + below(stages);
  std::vector<size_t> rankOfStage;
  for (size_t s = 0; s < stages; ++s)
    rankOfStage.push_back(s < ranks ? s : below(ranks));
  Plan plan = chainPlan(rankOfStage);
  for (size_t extra = below(4); extra > 0 && stages > 2; --extra) {
    size_t from = below(stages - 1);
    std::vector<size_t> consumers;
    for (size_t to = from + 1; to < stages; ++to)
      if (below(2) || to + 1 == stages)
        consumers.push_back(to);
    connect(plan, from, consumers);
  }
  plan.chain = chainBreak(plan).empty();
  return plan;
}

/// Three stages on two ranks with a skip channel, a value output beside a tensor, state, random ops
/// and both kinds of tie.
inline Plan richPlan() {
  Plan plan = chainPlan({0, 1, 1});
  connect(plan, 0, {1, 2});
  TensorSpec spec;
  spec.known = true;
  spec.dtype = "float32";
  spec.shape = {{1, 0, false}, {0, 3, false}, {2, 1, false}, {0, 0, true}};
  spec.strides = {{3, 0, false}, {0, 1, false}, {1, -2, false}, {0, 1, false}};
  spec.requiresGrad = true;
  spec.bytes = 96;
  plan.channels[0].tensor = spec;
  plan.signature.inputs[0].tensor = spec;
  spec.shape = {{0, 3, false}, {2, 0, false}};
  spec.strides = {{4, 0, false}, {0, 1, false}};
  spec.bytes = 48;
  plan.signature.leaves[0].tensor = spec;
  plan.signature.leaves[0].merge.dim = 1;
  plan.signature.leaves.push_back({"int", {MergeRule::Kind::Same, 0}, {}});
  plan.signature.leaves.push_back({"Tensor", {MergeRule::Kind::Mean, 0}, {}});
  OutputTree leaf0, leaf1, leaf2, list, dict;
  leaf1.leaf = 1;
  leaf2.leaf = 2;
  list.kind = OutputTree::Kind::List;
  list.children = {leaf1, leaf2};
  dict.kind = OutputTree::Kind::Dict;
  dict.keys = {"logits", "more"};
  dict.children = {leaf0, list};
  plan.signature.outputs.kind = OutputTree::Kind::Tuple;
  plan.signature.outputs.typeName = "Result";
  plan.signature.outputs.keys = {"scores"};
  plan.signature.outputs.children = {dict};
  plan.stages[1].outputs.push_back({"n", "int", {}, {1}, std::nullopt});
  plan.stages[1].outputs.push_back({"loss", "Tensor", {}, {2}, std::nullopt});
  plan.signature.batchSize = 2;

  using llvm::json::Value;
  auto addInput = [&](const char *name, const char *type, Value value) {
    InputSpec input;
    input.name = name;
    input.type = type;
    input.defaultValue = std::move(value);
    plan.signature.inputs.push_back(input);
  };
  addInput("n", "int", 1);
  addInput("scale", "float", floatDefault(1.0));
  addInput("mask", "Optional[Tensor]", nullptr);
  addInput("name", "str", "a \"b\" \xc3\xa9");
  addInput("sizes", "List[Any]", llvm::json::Array{floatDefault(0.1), floatDefault(-0.0), true});
  addInput("pair", "Tuple[int, List[Tuple[float, str]]]",
           tupleDefault(llvm::json::Array{
               7, llvm::json::Array{tupleDefault(llvm::json::Array{floatDefault(0.5), "a"})}}));
  plan.signature.inputs[1].written = true;

  auto attribute = [](const char *name, AttributeKind kind) {
    StageAttribute result;
    result.name = name;
    result.kind = kind;
    result.uses = 1;
    result.bytes = 8;
    return result;
  };
  plan.stages[0].attributes = {attribute("embedding.weight", AttributeKind::Parameter),
                               attribute("shared", AttributeKind::Parameter)};
  plan.stages[0].attributes[0].otherNames = {"alias.weight"};
  plan.stages[0].attributes[0].requiresGrad = true;
  plan.stages[2].attributes = {attribute("head.weight", AttributeKind::Parameter),
                               attribute("shared", AttributeKind::Parameter),
                               attribute("count", AttributeKind::Buffer)};
  plan.stages[2].attributes[0].requiresGrad = true;
  plan.stages[2].attributes[2].written = true;
  plan.stages[2].outputs.push_back({"count", "Tensor", {}, {}, 2});
  plan.stages[2].effects.stateWrites = {"count"};
  plan.stages[0].effects.randomOps = {0};
  plan.stages[2].effects.randomOps = {1, 2};
  plan.stages[2].effects.prints = true;
  plan.stages[0].parameterBytes = 16;
  plan.stages[2].parameterBytes = 8;
  plan.stages[1].firstModule = "encoder";
  plan.stages[1].lastModule = "encoder.layers.3";
  plan.stages[1].nodes = 17;
  plan.stages[1].costFlops = int64_t(1) << 40;
  Channel weight;
  weight.name = "w0";
  weight.kind = Channel::Kind::Weight;
  weight.type = "Tensor";
  weight.from = {0, 0};
  weight.to = {{2, 0}};
  weight.skip = true;
  plan.stages[0].weightChannelsOut = {plan.channels.size()};
  plan.stages[2].attributes[0].channel = plan.channels.size();
  plan.channels.push_back(weight);
  plan.ties.push_back(
      {{"embedding.weight", "alias.weight", "head.weight"}, {0, 2}, Tie::Mode::Transmit, 0});
  plan.ties.push_back({{"shared"}, {0, 2}, Tie::Mode::Replicate, 0});
  plan.chain = false;
  plan.mode = Mode::Train;
  plan.obligations = {Obligation::recompute("aten::size", 1, 1)};
  plan.normalisation = {false, {"encoder.norm"}, {"2:0-3,7"}};
  return plan;
}

/// The same with what a training needs. The shared weights are one parameter each.
inline Plan trainedPlan() {
  Plan plan = richPlan();
  plan.stages[0].attributes[1].requiresGrad = plan.stages[2].attributes[1].requiresGrad = true;
  TrainingPlan &training = plan.training.emplace();
  training.loss = 2;
  training.parameters = {{"embedding.weight",
                          {"alias.weight", "head.weight"},
                          "float32",
                          {2, 1},
                          {1, 1},
                          {{2, 0}, {0, 0}}},
                         {"shared", {}, "float32", {2}, {1}, {{2, 1}, {0, 1}}}};
  training.whyWhole = {"", "", "a write in place"};
  training.recompute = {0, 2};
  training.recomputeExceptLast = true;
  training.costs = {{100, 80, 60, 4096, 1024}, {200, 0, 0, 0, 0}, {300, 240, 180, 8192, 8192}};
  plan.requiredFeatures = featuresOf(plan);
  plan.scheduleName = "zb-h1";
  return plan;
}

} // namespace pipec
