#include "compiler/verify/PlanGradientSums.h"

#include "ir/autograd/GradSum.h"
#include "ir/values/CompareValues.h"
#include "llvm/ADT/STLExtras.h"

#include <ATen/core/Tensor.h>

#include <algorithm>

namespace pipec {

namespace {

at::Tensor wide(const at::Tensor &gradient) {
  return denseGradient(gradient).to(gradient.is_complex() ? at::kComplexDouble : at::kDouble);
}

double norm(const at::Tensor &gradient) { return wide(gradient).abs().norm().item<double>(); }

} // namespace

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
      sum.parts.push_back(part.front());
    }
  return sum;
}

double tiedTolerance(at::ScalarType dtype) {
  return dtype == at::kHalf ? 8 * 0x1p-10 : dtype == at::kBFloat16 ? 8 * 0x1p-7 : 1e-6;
}

bool isSameGradient(const at::Tensor &expected, const ParameterGradient &found) {
  const at::Tensor &actual = found.gradient;
  if (!expected.defined() || !actual.defined())
    return expected.defined() == actual.defined();
  if (compare(expected, actual, 0.0, 0.0).equal)
    return true;
  if (!found.isSum() || expected.sizes() != actual.sizes() || expected.dtype() != actual.dtype())
    return false;
  double ofParts = 0;
  for (const at::Tensor &part : found.parts)
    ofParts += norm(part);
  return norm(wide(actual).sub(wide(expected))) <=
         tiedTolerance(expected.scalar_type()) * std::max(ofParts, norm(expected));
}

} // namespace pipec
