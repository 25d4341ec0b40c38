// Runs a flat graph operator by operator on example inputs.
#pragma once

#include "compiler/cost/Backward.h"
#include "compiler/cost/EqualOperators.h"
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
  size_t index;                    // of the operator
  std::vector<c10::IValue> inputs; // of the node, and outer values that its blocks use
  const std::vector<c10::IValue> &outputs;
  Arithmetic work;           // arithmetic that ran, also inside blocks
  int64_t ns;                // duration
  OperatorBackward backward; // if requested
  int64_t keptBytes = 0;     // of activations that its backward is the first to need
  /// Of activations that its weights' gradients are the first to need, and of their own gradients.
  int64_t pendingBytes = 0;
};

/// Which operators of a graph run.
enum class Running {
  All,
  /// One of those that are equal (EqualOperators): the others take its time and its results. Forms
  /// and times are right, elements are not. All run if the model has an operator that writes, draws
  /// or looks at elements.
  Distinct
};

/// For runs that show forms or times: Distinct for large models.
Running runningFor(const Model &model);

/// Runs one model any number of times. One thread at a time. The model must outlive it.
class GraphEvaluator {
public:
  using Observe = llvm::function_ref<void(const OperatorRun &)>;
  using ObserveInside =
      llvm::function_ref<void(torch::jit::Node *node, const std::vector<c10::IValue> &outputs)>;

  /// `countsFlops`: which takes a few microseconds per operator. `decided`: types are followed into
  /// the branches that they decide.
  explicit GraphEvaluator(Model &model, bool countsFlops = true, DecidedTypes *decided = nullptr,
                          Running running = Running::All);

  /// Whether not every operator runs.
  bool runsDistinct() const { return running_ == Running::Distinct; }

  /// Calls `observe` after each top-level operator; where Running::Distinct turns out not to suit
  /// the model, again from the first operator on. Values are dropped after their last use;
  /// attributes that the model writes are copied first. One intra-op thread, no gradients. With
  /// `backward` each operator runs once more with gradients and backward, and its arithmetic is
  /// counted. `inputs` has one value per argument of the method. The first run prepares the nodes.
  /// Errors: Usage with LibTorch's message, naming the operator that failed.
  llvm::Error run(std::vector<c10::IValue> inputs, Observe observe, bool backward = false);

  /// From now on, branches and loops run operator by operator, and `observe` is called after each
  /// of these operators. It must outlive the runs.
  void lookInside(ObserveInside observe) { inside_ = observe; }

private:
  llvm::Error runOperators(std::vector<c10::IValue> inputs);
  llvm::Error runOne(size_t index);
  EqualOperators::Known runOrBorrow(torch::jit::Node *node, PreparedNode &prepared);
  bool handsOnWeights(torch::jit::Node *node, const std::vector<torch::jit::Value *> &used) const;
  bool isMade(torch::jit::Value *value) const;
  bool isKnownTo(torch::jit::Node *node, torch::jit::Value *value) const;
  PreparedNode &preparedFor(torch::jit::Node *node);
  std::vector<torch::jit::Value *> usedBy(torch::jit::Node *node) const;
  void runNode(torch::jit::Node *node, PreparedNode &prepared, torch::jit::Stack &stack);
  void runInner(torch::jit::Node *node);
  void runBlock(torch::jit::Block *block);
  void dropInner(torch::jit::Block *block);
  void runLoop(torch::jit::Node *node, torch::jit::Stack &stack);
  c10::IValue valueOf(torch::jit::Value *value);
  OperatorBackward differentiate(torch::jit::Node *node, PreparedNode &prepared);
  int64_t firstKept(torch::jit::Node *node, const std::vector<torch::jit::Value *> &used,
                    const OperatorBackward &backward);
  int64_t firstPending(torch::jit::Node *node, const std::vector<torch::jit::Value *> &used,
                       const OperatorBackward &backward);

  Model &model_;
  TopLevel top_;
  Observe observe_ = nullptr;
  ObserveInside inside_ = nullptr;
  DecidedTypes *decided_;
  Running running_;
  std::optional<EqualOperators> equal_; // of this run
  bool countsFlops_;
  bool backward_ = false;
  NodeRunner runner_;
  // Looked up by pointer only.
  std::unordered_map<torch::jit::Value *, c10::IValue> values_;
  std::unordered_map<torch::jit::Value *, size_t> lastUse_;
  std::unordered_map<torch::jit::Node *, PreparedNode> prepared_;
  /// Memory of arguments and attributes. It may be free already, and its place is not used again.
  std::unordered_map<const void *, c10::weak_intrusive_ptr<c10::StorageImpl>> given_;
  std::unordered_set<torch::jit::Value *> weights_;  // whose gradients are needed
  std::unordered_set<torch::jit::Value *> needGrad_; // made from those
  std::unordered_set<torch::jit::Value *> kept_;     // for the backward of an earlier operator
  std::unordered_set<torch::jit::Value *> pending_;  // for the weights' gradients of an earlier one
};

/// The run must not change the weights that are compiled afterwards.
c10::IValue privateCopy(const Attribute &attribute);

} // namespace pipec
