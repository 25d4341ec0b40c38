#include "compiler/verify/PlanGradientSums.h"

#include "ir/autograd/GradSum.h"
#include "llvm/ADT/STLExtras.h"

#include <ATen/core/Tensor.h>

namespace pipec {

ParameterGradient gradientOf(const Plan &plan, const std::vector<std::string> &names,
                             const TrainedMicroBatch &step) {
  const auto parameter =
      llvm::find_if(plan.training->parameters,
                    [&](const TrainedParameter &each) { return each.name == names.front(); });
  ParameterGradient sum;
  if (parameter == plan.training->parameters.end())
    return sum;
  for (const PortRef &use : parameter->uses)
    if (const ValueGradients &part = step.gradients[use.stage][use.port];
        !part.empty() && part.front().defined()) {
      addGradient(sum.gradient, part.front());
      ++sum.stages;
    }
  return sum;
}

double tiedTolerance(at::ScalarType dtype) {
  return dtype == at::kHalf ? 8 * 0x1p-10 : dtype == at::kBFloat16 ? 8 * 0x1p-7 : 1e-6;
}

} // namespace pipec
