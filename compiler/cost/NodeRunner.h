// Runs one node of a graph by itself: by its kernel, or in the interpreter where it has none.
#pragma once

#include "llvm/ADT/STLExtras.h"

#include <ATen/core/stack.h>
#include <torch/csrc/jit/runtime/interpreter.h>

#include <optional>
#include <vector>

namespace torch::jit {
struct Node;
struct Value;
} // namespace torch::jit

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
  static PreparedNode prepare(torch::jit::Node *node, std::vector<torch::jit::Value *> used);

  /// Onto the stack. `valueOf`: of what the node takes.
  void run(torch::jit::Node *node, PreparedNode &prepared, torch::jit::Stack &stack,
           llvm::function_ref<c10::IValue(torch::jit::Value *)> valueOf);

  int64_t ns() const { return ns_; }            // of the node that ran last
  bool preparing() const { return preparing_; } // what was thrown came before the node ran

private:
  /// Structure, control flow and the like have no kernel of their own: a graph of just this node
  /// runs in the interpreter.
  void prepareCode(torch::jit::Node *node, PreparedNode &prepared);
  void timed(llvm::function_ref<void()> body);

  bool preparing_ = false; // a graph for the interpreter
  int64_t ns_ = 0;         // of the node that ran last
};

} // namespace pipec
