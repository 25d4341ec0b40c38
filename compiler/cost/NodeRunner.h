// Runs one node of a graph alone: with its kernel, or in the interpreter if it has none.
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

/// The preparation for running a node. It is not part of the node's time.
struct PreparedNode {
  std::vector<torch::jit::Value *> used;    // outer values
  bool writes = false, writesState = false; // into its inputs; into running statistics
  std::optional<torch::jit::Operation> operation;
  std::optional<torch::jit::Code> code; // for nodes without a kernel of their own
};

class NodeRunner {
public:
  /// `used`: the outer values that the node and its blocks read, each once.
  static PreparedNode prepare(torch::jit::Node *node, std::vector<torch::jit::Value *> used);

  /// Runs the node on the stack. `valueOf` returns the node's inputs.
  void run(torch::jit::Node *node, PreparedNode &prepared, torch::jit::Stack &stack,
           llvm::function_ref<c10::IValue(torch::jit::Value *)> valueOf);

  int64_t ns() const { return ns_; }            // of the last run
  bool preparing() const { return preparing_; } // an exception came before the node ran

private:
  /// Structure and control flow have no kernel of their own: the interpreter runs a graph of just
  /// this node.
  void prepareCode(torch::jit::Node *node, PreparedNode &prepared);
  void timed(llvm::function_ref<void()> body);

  bool preparing_ = false; // a graph for the interpreter
  int64_t ns_ = 0;         // of the last run
};

} // namespace pipec
