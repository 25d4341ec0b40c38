#include "ir/batch/Rounding.h"

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

double toleranceFor(const c10::IValue &value) {
  double tolerance = 0;
  value.visit([&](const c10::IValue &inner) { // numbers in containers, too
    if (inner.isDouble())
      tolerance = std::max(tolerance, kRounding * std::abs(inner.toDouble()));
    return false;
  });
  forEachTensor(value, [&](const at::Tensor &tensor) {
    if (tensor.defined() && tensor.is_floating_point() && tensor.numel() > 0 &&
        tensor.layout() == at::kStrided)
      tolerance =
          std::max(tolerance, roundingOf(tensor.scalar_type()) *
                                  tensor.detach().abs().max().to(at::kDouble).item<double>());
  });
  return tolerance;
}

} // namespace pipec
