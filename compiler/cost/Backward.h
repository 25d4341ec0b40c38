// The cost of the backward of one operator: the operator runs once more with gradients, then
// backward.
#pragma once

#include "compiler/cost/FlopCounter.h"
#include "llvm/ADT/STLExtras.h"

#include <ATen/core/ivalue.h>

namespace pipec {

/// Zeros if nothing needs a gradient, or if there is no backward.
struct OperatorBackward {
  int64_t inputGradNs = 0, weightGradNs = 0;       // each in a backward of its own
  Arithmetic inputGradWork, weightGradWork;        // instead of times, if work is counted
  int64_t inputGradBytes = 0, weightGradBytes = 0; // of the gradients that these backwards make
  /// Per input value and per result: bytes of it that the backward needs, except weights.
  std::vector<int64_t> keptOfRead, keptOfMade;
  /// The part of these that the weights' gradients need after the walk to the inputs, and the bytes
  /// of the gradients that they start from. Empty: none.
  std::vector<int64_t> pendingOfRead, pendingOfMade;
  int64_t pendingGradients = 0;
  int64_t keptOfWeights = 0;     // bytes of weights that the backward reads
  std::vector<bool> hasGradient; // per result: all or some of its tensors have a gradient
};

/// A value that the operator reads.
struct BackwardInput {
  enum class Kind { Fixed, Activation, Weight }; // the last two need gradients
  c10::IValue value;
  Kind kind = Kind::Fixed;
  bool isMade = false; // Fixed: by an operator, so after its last reader only backwards keep it
};

/// `writes`: the operator writes into its inputs, so it gets copies. `run` runs it on such values
/// and returns its results; an exception means that there is no backward. `counts`: count flops
/// instead of measuring times, which is the same on every run.
OperatorBackward
timeBackward(const std::vector<BackwardInput> &inputs, bool writes, bool counts,
             llvm::function_ref<std::vector<c10::IValue>(const std::vector<c10::IValue> &)> run);

} // namespace pipec
