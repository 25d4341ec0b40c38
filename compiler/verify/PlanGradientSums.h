// The gradients of a plan's parameters, summed over stages as a training sums them.
#pragma once

#include "ir/autograd/SerialTrainer.h"

namespace pipec {

struct ParameterGradient {
  at::Tensor gradient; // undefined: none
  size_t stages = 0;   // that a part came from
};

/// The gradient of the parameter with one of `names` in `step`: the parts of its uses in
/// plan.training, in their order. None for a parameter that the plan does not train.
ParameterGradient gradientOf(const Plan &plan, const std::vector<std::string> &names,
                             const TrainedMicroBatch &step);

/// What a gradient that is summed over stages may be off by, as a relative L2 norm: 1e-6, or 8
/// roundings of a narrower dtype.
double tiedTolerance(at::ScalarType dtype);

} // namespace pipec
