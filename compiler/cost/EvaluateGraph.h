// Runs a flat graph operator by operator on example inputs, and writes what that shows about its
// tensors on its values.
#pragma once

#include "compiler/cost/Backward.h"
#include "compiler/cost/FlopCounter.h"
#include "ir/Model.h"
#include "llvm/ADT/STLExtras.h"

namespace torch::jit {
struct Node;
}

namespace pipec {

/// What one operator of the top level read and made.
struct OperatorRun {
  torch::jit::Node *node;
  std::vector<c10::IValue> inputs; // of the node and of what its blocks use from outside
  const std::vector<c10::IValue> &outputs;
  Arithmetic work;           // that ran, inside blocks too
  int64_t ns;                // that it took
  OperatorBackward backward; // where asked for
  int64_t keptBytes = 0;     // of activations that its backward is the first to need
};

/// The top level as numbers: who reads whose results.
struct OperatorGraph {
  struct Operator {
    std::string op, module; // "aten::linear", "encoder.fc1"
  };
  using Pairs = std::vector<std::pair<uint32_t, uint32_t>>;
  std::vector<Operator> operators; // in program order
  Pairs reads;                     // maker, reader; each once
  Pairs weights;                   // attribute, operator that reads it; each once
};
OperatorGraph operatorGraph(const Model &model);

/// Calls `observe` after each operator of the top level. Values are dropped after their last use;
/// attributes that the model writes are copied first. One intra-op thread, no gradients; with
/// `backward` each operator runs once more with them, and backward, and its arithmetic is counted.
/// `inputs`: one value per argument of the method. Errors: Usage with LibTorch's message, naming
/// the operator that failed.
llvm::Error evaluateGraph(Model &model, std::vector<c10::IValue> inputs,
                          llvm::function_ref<void(const OperatorRun &)> observe,
                          bool backward = false);

/// Runs a graph again and again, as evaluateGraph does, without counting flops; what running takes
/// is prepared in the first run. One thread at a time; timers of one model may run side by side
/// once each has run. The model must outlive it.
class GraphTimer {
public:
  explicit GraphTimer(Model &model);
  ~GraphTimer();

  /// Nanoseconds of each operator of the top level. `observe` (may be empty) sees each after it
  /// ran. `backward`: each runs once more with gradients, and backward. Errors: those of
  /// evaluateGraph.
  llvm::Expected<std::vector<int64_t>>
  operators(std::vector<c10::IValue> inputs,
            llvm::function_ref<void(const OperatorRun &)> observe = nullptr, bool backward = false);
  /// Nanoseconds of the graph as one. Errors: the same.
  llvm::Expected<int64_t> whole(std::vector<c10::IValue> inputs);
  /// Nanoseconds of the way back through the graph as one, to every weight that is trained; 0:
  /// there is none. It holds what the backwards of all operators need. Errors: the same.
  llvm::Expected<int64_t> wholeBackward(std::vector<c10::IValue> inputs);

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Runs the graph once and gives each tensor of the top level its dtype, rank, sizes and strides at
/// the example size. Simplification relies on dtype and rank only, and only where the inputs' own
/// dtype and rank decide them: a runtime refuses inputs of another dtype or rank. Errors: those of
/// evaluateGraph.
llvm::Error inferTypes(Model &model, std::vector<c10::IValue> inputs);

/// The model with a graph of its own; attributes are shared.
Model withOwnGraph(const Model &model);

/// Takes all of it back: stages accept what the model accepts.
void eraseTypes(Model &model);

} // namespace pipec
