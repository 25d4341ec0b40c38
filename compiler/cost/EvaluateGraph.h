// Runs a flat graph operator by operator on example inputs, and writes the observed facts about
// tensors on the graph's values.
#pragma once

#include "compiler/cost/Backward.h"
#include "compiler/cost/FlopCounter.h"
#include "compiler/cost/OperatorMemo.h"
#include "ir/Model.h"
#include "llvm/ADT/STLExtras.h"

namespace torch::jit {
struct Node;
}

namespace pipec {

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

/// The top level as numbers: which operator reads which results.
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

/// Calls `observe` after each top-level operator. Values are dropped after their last use;
/// attributes that the model writes are copied first. One intra-op thread, no gradients. With
/// `backward` each operator runs once more with gradients and backward, and its arithmetic is
/// counted. `inputs` has one value per argument of the method. Errors: Usage with LibTorch's
/// message, naming the operator that failed.
llvm::Error evaluateGraph(Model &model, std::vector<c10::IValue> inputs,
                          llvm::function_ref<void(const OperatorRun &)> observe,
                          bool backward = false);

/// Runs a graph repeatedly, as evaluateGraph does, without counting flops. The first run also does
/// the preparations. One thread at a time; several timers of one model may run in parallel after
/// the first run of each. The model must outlive it.
class GraphTimer {
public:
  explicit GraphTimer(Model &model);
  ~GraphTimer();

  /// The preparations for whole(). Errors: those of evaluateGraph.
  llvm::Error prepare();
  /// Nanoseconds of each top-level operator. `observe` (may be empty) is called after each.
  /// `backward`: each operator runs once more with gradients, and backward. Errors: those of
  /// evaluateGraph.
  llvm::Expected<std::vector<int64_t>>
  operators(std::vector<c10::IValue> inputs,
            llvm::function_ref<void(const OperatorRun &)> observe = nullptr, bool backward = false);
  /// Nanoseconds of the whole graph. Errors: the same.
  llvm::Expected<int64_t> whole(std::vector<c10::IValue> inputs);
  /// Nanoseconds of the backward through the whole graph, to every trained weight; 0 if there is
  /// none. It holds the memory that the backwards of all operators need. Errors: the same.
  llvm::Expected<int64_t> wholeBackward(std::vector<c10::IValue> inputs);

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Runs the graph once, returns its output leaves, and sets dtype, rank, sizes and strides of each
/// top-level tensor to those at the example size. Expensive operators that `memo`, if given, knows
/// do not run again. Simplification uses dtype and rank only, and only where dtype and rank of the
/// inputs determine them: a runtime refuses inputs of another dtype or rank. Errors: those of
/// evaluateGraph.
llvm::Expected<std::vector<c10::IValue>> inferTypes(Model &model, std::vector<c10::IValue> inputs,
                                                    OperatorMemo *memo = nullptr);

/// A copy of the model with its own graph; attributes are shared.
Model withOwnGraph(const Model &model);

/// Removes all these types: stages accept what the model accepts.
void eraseTypes(Model &model);

} // namespace pipec
