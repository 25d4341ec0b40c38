#include "ir/batch/discovery/Rounding.h"

#include "ir/values/MapTensors.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cmath>

namespace pipec {

double roundingOf(at::ScalarType type) {
  const double epsilon = type == at::kBFloat16 ? 0x1p-8 : type == at::kHalf ? 0x1p-11 : 0x1p-24;
  return std::max(kRounding, 64 * epsilon);
}

double reducedRoundingOf(at::ScalarType type) {
  return std::max(kReducedRounding, roundingOf(type) > kRounding ? roundingOf(type) : 0);
}

double largestFinite(const at::Tensor &tensor) {
  const bool hasNumbers = tensor.defined() && tensor.numel() > 0 &&
                          tensor.layout() == at::kStrided &&
                          (tensor.is_floating_point() || tensor.is_complex());
  if (!hasNumbers)
    return 0;
  const at::Tensor sizes = tensor.detach().abs();
  return sizes.masked_fill(sizes.isfinite().logical_not(), 0).max().to(at::kDouble).item<double>();
}

double toleranceFor(const c10::IValue &value) {
  double tolerance = 0;
  value.visit([&](const c10::IValue &inner) { // numbers in containers, too
    if (inner.isDouble() && std::isfinite(inner.toDouble()))
      tolerance = std::max(tolerance, kRounding * std::abs(inner.toDouble()));
    return false;
  });
  forEachTensor(value, [&](const at::Tensor &tensor) {
    if (const double largest = largestFinite(tensor); largest > 0)
      tolerance =
          std::max(tolerance, roundingOf(c10::toRealValueType(tensor.scalar_type())) * largest);
  });
  return tolerance;
}

} // namespace pipec
