#include "compiler/cost/OperatorGraph.h"

#include "ir/NodeInfo.h"
#include "passes/analysis/TopLevel.h"

#include <torch/csrc/jit/ir/ir.h>

#include <set>
#include <unordered_map>

namespace pipec {

using torch::jit::Node;
using torch::jit::Value;

OperatorGraph operatorGraph(const Model &model) {
  const TopLevel top = topLevelOf(model);
  std::unordered_map<Value *, uint32_t> makers, attributes; // looked up by pointer only
  for (size_t i = 0; i < model.attributes.size(); ++i)
    attributes[model.graph->inputs()[model.argumentCount() + i]] = static_cast<uint32_t>(i);
  // Lists made of attributes alone, as those of recurrent layers: the weights belong to the list's
  // reader.
  std::unordered_map<Value *, std::vector<uint32_t>> lists; // looked up by pointer only
  OperatorGraph graph;
  for (size_t i = 0; i < top.operators.size(); ++i) {
    Node *node = top.operators[i];
    const auto self = static_cast<uint32_t>(i);
    if (node->kind() == c10::prim::ListConstruct && !node->inputs().empty() &&
        llvm::all_of(node->inputs(), [&](Value *input) { return attributes.count(input) > 0; }))
      for (Value *input : node->inputs())
        lists[node->output()].push_back(attributes[input]);
    graph.operators.push_back({node->kind().toQualString(), modulePathOf(node)});
    std::set<uint32_t> read, weights;
    forEachOuterUse(node, [&](Value *value) {
      if (auto maker = makers.find(value); maker != makers.end())
        read.insert(maker->second);
      if (auto attribute = attributes.find(value); attribute != attributes.end())
        weights.insert(attribute->second);
      if (auto list = lists.find(value); list != lists.end())
        weights.insert(list->second.begin(), list->second.end());
    });
    if (!node->outputs().empty() && lists.count(node->outputs()[0]))
      weights.clear();
    for (uint32_t maker : read)
      graph.reads.emplace_back(maker, self);
    for (uint32_t weight : weights)
      graph.weights.emplace_back(weight, self);
    for (Value *output : node->outputs())
      makers[output] = self;
  }
  return graph;
}

} // namespace pipec
