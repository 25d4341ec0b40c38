// Times of the operators of a flat graph, and of the whole graph.
#pragma once

#include "compiler/cost/GraphEvaluator.h"

#include <memory>

namespace pipec {

/// Nanoseconds of a training's pass over the whole graph.
struct WholePass {
  int64_t forwardNs = 0;  // with a graph for the backward
  int64_t backwardNs = 0; // to every trained weight; 0: there is none
};

/// Runs a graph repeatedly, as GraphEvaluator does, without counting flops. The first run also does
/// the preparations. One thread at a time; several timers of one model may run in parallel after
/// the first run of each. The model must outlive it.
class GraphTimer {
public:
  explicit GraphTimer(Model &model, Running running = Running::All);
  ~GraphTimer();

  /// The preparations for whole(). Errors: those of GraphEvaluator.
  llvm::Error prepare();
  /// Whether operators() leaves out those that are equal to others.
  bool runsDistinct() const;
  /// Nanoseconds of each top-level operator. `observe` (may be empty) is called as by
  /// GraphEvaluator.
  /// `backward`: each operator runs once more with gradients, and backward. Errors: those of
  /// GraphEvaluator.
  llvm::Expected<std::vector<int64_t>>
  operators(std::vector<c10::IValue> inputs,
            llvm::function_ref<void(const OperatorRun &)> observe = nullptr, bool backward = false);
  /// Nanoseconds of the whole graph. Errors: the same.
  llvm::Expected<int64_t> whole(std::vector<c10::IValue> inputs);
  /// A training's pass. It holds the memory that the backwards of all operators need. Errors: the
  /// same.
  llvm::Expected<WholePass> wholeTraining(std::vector<c10::IValue> inputs);

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace pipec
