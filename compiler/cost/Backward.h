// What the backward of one operator takes: run once more with gradients, then walked back.
#pragma once

#include "compiler/cost/FlopCounter.h"
#include "ir/values/Values.h"
#include "llvm/ADT/STLExtras.h"

namespace pipec {

/// Zeros where nothing needs a gradient, or none can be made.
struct OperatorBackward {
  int64_t inputGradNs = 0, weightGradNs = 0;       // each in a walk of its own
  Arithmetic inputGradWork, weightGradWork;        // instead, where work is counted
  int64_t inputGradBytes = 0, weightGradBytes = 0; // of the gradients that the walks make
  /// Per value that was read and per result: bytes that the backward needs of it, weights excepted.
  std::vector<int64_t> keptOfRead, keptOfMade;
  int64_t keptOfWeights = 0;     // bytes of weights that the backward reads
  std::vector<bool> hasGradient; // per result: its tensors, or some, have one
};

/// A value that the operator reads.
struct BackwardInput {
  enum class Kind { Fixed, Activation, Weight }; // gradients are wanted of the last two
  c10::IValue value;
  Kind kind = Kind::Fixed;
};

/// `writes`: the operator writes into what it reads, so it gets copies. `run` runs it on such
/// values and returns its results; it may throw, which says that there is no backward.
/// `counts`: flops are counted instead of times taken, which is the same on every run.
OperatorBackward
timeBackward(const std::vector<BackwardInput> &inputs, bool writes, bool counts,
             llvm::function_ref<std::vector<c10::IValue>(const std::vector<c10::IValue> &)> run);

} // namespace pipec
