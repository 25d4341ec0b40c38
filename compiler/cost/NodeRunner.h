// Runs one node of a graph by itself: by its kernel, or in the interpreter where it has none.
#pragma once

#include "ir/NodeInfo.h"
#include "ir/torchfile/TorchFile.h"
#include "llvm/ADT/STLExtras.h"
#include "passes/analysis/OperatorFacts.h"
#include "passes/analysis/TopLevel.h"

#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/runtime/interpreter.h>

#include <chrono>
#include <optional>
#include <unordered_map>

namespace pipec {

/// What it takes to run a node belongs to this way of running it, not to the node's time.
struct PreparedNode {
  std::vector<torch::jit::Value *> used;    // from outside
  bool writes = false, writesState = false; // into what it reads; into running statistics
  std::optional<torch::jit::Operation> operation;
  std::optional<torch::jit::Code> code; // of nodes without a kernel of their own
};

class NodeRunner {
public:
  /// `used`: what the node and its blocks take from outside, each once.
  static PreparedNode prepare(torch::jit::Node *node, std::vector<torch::jit::Value *> used) {
    PreparedNode prepared;
    prepared.used = std::move(used);
    prepared.writes = firstInside(node, mayWrite);
    prepared.writesState = firstInside(node, [](torch::jit::Node *inner) {
      const auto [first, last] = hiddenWrites(inner);
      return first < last;
    });
    return prepared;
  }

  /// Onto the stack. `valueOf`: of what the node takes.
  void run(torch::jit::Node *node, PreparedNode &prepared, torch::jit::Stack &stack,
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

  int64_t ns() const { return ns_; }            // of the node that ran last
  bool preparing() const { return preparing_; } // what was thrown came before the node ran

private:
  static bool mayWrite(torch::jit::Node *node) {
    const c10::FunctionSchema *schema = node->maybeSchema();
    return (schema && schema->is_mutable()) || node->hasAttribute(c10::attr::Subgraph) ||
           (!schema && !node->kind().is_prim());
  }

  static bool hasKernel(torch::jit::Node *node) {
    return node->blocks().empty() && node->kind() != c10::aten::wait &&
           node->kind() != c10::aten::warn && node->maybeOperator() && node->kind().is_aten() &&
           !node->schema().is_vararg();
  }

  /// Structure, control flow and the like have no kernel of their own: a graph of just this node
  /// runs in the interpreter.
  void prepareCode(torch::jit::Node *node, PreparedNode &prepared) {
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
    removePrints(graph->block()); // those of the source's first run are enough
    preparing_ = true;
    prepared.code.emplace(graph, "pipec_operator");
    preparing_ = false;
  }

  void timed(llvm::function_ref<void()> body) {
    const auto start = std::chrono::steady_clock::now();
    body();
    ns_ = std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count();
  }

  bool preparing_ = false; // a graph for the interpreter
  int64_t ns_ = 0;         // of the node that ran last
};

} // namespace pipec
