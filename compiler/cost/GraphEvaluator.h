// Runs a flat graph operator by operator on example inputs.
#pragma once

#include "compiler/cost/Backward.h"
#include "compiler/cost/FlopCounter.h"
#include "compiler/cost/NodeRunner.h"
#include "ir/Model.h"
#include "passes/analysis/TopLevel.h"

#include <unordered_map>
#include <unordered_set>

namespace pipec {

class DecidedTypes;

/// The inputs and results of one run of a top-level operator.
struct OperatorRun {
  torch::jit::Node *node;
  std::vector<c10::IValue> inputs; // of the node, and outer values that its blocks use
  const std::vector<c10::IValue> &outputs;
  Arithmetic work;           // arithmetic that ran, also inside blocks
  int64_t ns;                // duration
  OperatorBackward backward; // if requested
  int64_t keptBytes = 0;     // of activations that its backward is the first to need
};

/// Runs one model any number of times. One thread at a time. The model must outlive it.
class GraphEvaluator {
public:
  using Observe = llvm::function_ref<void(const OperatorRun &)>;

  /// `countsFlops`: which takes a few microseconds per operator. `decided`: types are followed into
  /// the branches that they decide.
  explicit GraphEvaluator(Model &model, bool countsFlops = true, DecidedTypes *decided = nullptr);

  /// Calls `observe` after each top-level operator. Values are dropped after their last use;
  /// attributes that the model writes are copied first. One intra-op thread, no gradients. With
  /// `backward` each operator runs once more with gradients and backward, and its arithmetic is
  /// counted. `inputs` has one value per argument of the method. The first run prepares the nodes.
  /// Errors: Usage with LibTorch's message, naming the operator that failed.
  llvm::Error run(std::vector<c10::IValue> inputs, Observe observe, bool backward = false);
  /// The output leaves, after run().
  std::vector<c10::IValue> leaves();

private:
  llvm::Error runOne(size_t index);
  bool handsOnWeights(torch::jit::Node *node, const std::vector<torch::jit::Value *> &used) const;
  bool isKnownTo(torch::jit::Node *node, torch::jit::Value *value) const;
  PreparedNode &preparedFor(torch::jit::Node *node);
  std::vector<torch::jit::Value *> usedBy(torch::jit::Node *node) const;
  void runNode(torch::jit::Node *node, PreparedNode &prepared, torch::jit::Stack &stack);
  void runInner(torch::jit::Node *node);
  c10::IValue valueOf(torch::jit::Value *value);
  OperatorBackward differentiate(torch::jit::Node *node, PreparedNode &prepared);
  int64_t firstKept(torch::jit::Node *node, const std::vector<torch::jit::Value *> &used,
                    const OperatorBackward &backward);

  Model &model_;
  TopLevel top_;
  Observe observe_ = nullptr;
  DecidedTypes *decided_;
  bool countsFlops_;
  bool backward_ = false;
  NodeRunner runner_;
  // Looked up by pointer only.
  std::unordered_map<torch::jit::Value *, c10::IValue> values_;
  std::unordered_map<torch::jit::Value *, size_t> lastUse_;
  std::unordered_map<torch::jit::Node *, PreparedNode> prepared_;
  std::unordered_set<torch::jit::Value *> weights_;  // whose gradients are needed
  std::unordered_set<torch::jit::Value *> needGrad_; // made from those
  std::unordered_set<torch::jit::Value *> kept_;     // for the backward of an earlier operator
};

/// The run must not change the weights that are compiled afterwards.
c10::IValue privateCopy(const Attribute &attribute);

} // namespace pipec
