// The gradients of a plan's parameters, summed over stages as a training sums them.
#pragma once

#include "ir/autograd/SerialTrainer.h"

namespace pipec {

struct ParameterGradient {
  at::Tensor gradient;           // undefined: none
  std::vector<at::Tensor> parts; // of each stage that gives one

  bool isSum() const { return parts.size() > 1; }
};

/// The gradient of the parameter with one of `names` in `step`: the parts of its uses in
/// plan.training, in their order. None for a parameter that the plan does not train.
ParameterGradient gradientOf(const Plan &plan, const std::vector<std::string> &names,
                             const TrainedMicroBatch &step);

/// What a gradient that is summed over stages may be off by, relative to the sum of the L2 norms of
/// its parts: 1e-6, or 8 roundings of a narrower dtype. Parts may cancel, as those of a triplet
/// loss, and their sum says nothing of how they were rounded.
double tiedTolerance(at::ScalarType dtype);

/// Whether `found` is `expected`, the gradient of the unsplit model: bit by bit, or, if it is a
/// sum, within tiedTolerance.
bool isSameGradient(const at::Tensor &expected, const ParameterGradient &found);

} // namespace pipec
