#include "compiler/cost/NodeRunner.h"

#include "ir/torchfile/TorchFile.h"
#include "passes/analysis/OperatorFacts.h"
#include "passes/analysis/TopLevel.h"

#include <torch/csrc/jit/ir/ir.h>

#include <chrono>
#include <unordered_map>

namespace pipec {

namespace {

bool mayWrite(torch::jit::Node *node) {
  const c10::FunctionSchema *schema = node->maybeSchema();
  return (schema && schema->is_mutable()) || node->hasAttribute(c10::attr::Subgraph) ||
         (!schema && !node->kind().is_prim());
}

bool hasKernel(torch::jit::Node *node) {
  return node->blocks().empty() && node->kind() != c10::aten::wait &&
         node->kind() != c10::aten::warn && node->maybeOperator() && node->kind().is_aten() &&
         !node->schema().is_vararg();
}

} // namespace

PreparedNode NodeRunner::prepare(torch::jit::Node *node, std::vector<torch::jit::Value *> used) {
  PreparedNode prepared;
  prepared.used = std::move(used);
  prepared.writes = firstInside(node, mayWrite);
  prepared.writesState = firstInside(node, [](torch::jit::Node *inner) {
    const auto [first, last] = hiddenWrites(inner);
    return first < last;
  });
  return prepared;
}

void NodeRunner::run(torch::jit::Node *node, PreparedNode &prepared, torch::jit::Stack &stack,
                     llvm::function_ref<c10::IValue(torch::jit::Value *)> valueOf) {
  if (!prepared.operation && !prepared.code) {
    if (hasKernel(node))
      prepared.operation = node->getOperation();
    else
      prepareCode(node, prepared);
  }
  if (prepared.operation) {
    for (torch::jit::Value *input : node->inputs())
      stack.push_back(valueOf(input));
    timed([&] { (*prepared.operation)(stack); });
    return;
  }
  for (torch::jit::Value *value : prepared.used)
    stack.push_back(valueOf(value));
  timed([&] { torch::jit::InterpreterState(*prepared.code).run(stack); });
}

void NodeRunner::prepareCode(torch::jit::Node *node, PreparedNode &prepared) {
  auto graph = std::make_shared<torch::jit::Graph>();
  std::unordered_map<torch::jit::Value *, torch::jit::Value *> map;
  for (torch::jit::Value *value : prepared.used) {
    map[value] = graph->addInput();
    map[value]->setType(value->type());
  }
  torch::jit::Node *clone = graph->insertNode(
      graph->createClone(node, [&](torch::jit::Value *value) { return map.at(value); }));
  for (torch::jit::Value *output : clone->outputs())
    graph->registerOutput(output);
  removePrints(graph->block()); // the source's first run printed already
  preparing_ = true;
  prepared.code.emplace(graph, "pipec_operator");
  preparing_ = false;
}

void NodeRunner::timed(llvm::function_ref<void()> body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  ns_ = std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count();
}

} // namespace pipec
