// How much two results may differ and still count as equal: another batch size runs other kernels.
#pragma once

#include "ir/values/MapTensors.h"

#include <ATen/core/Tensor.h>

#include <algorithm>

namespace pipec {

inline constexpr double kRounding = 1e-3; // of the largest number
/// For sums and means: these hardly differ, and an average of values that are no mean may come
/// close.
inline constexpr double kReducedRounding = 5e-5;

/// The same for a dtype of few bits, for which 64 roundings exceed kRounding.
inline double roundingOf(at::ScalarType type) {
  const double epsilon = type == at::kBFloat16 ? 0x1p-8 : type == at::kHalf ? 0x1p-11 : 0x1p-24;
  return std::max(kRounding, 64 * epsilon);
}

inline double reducedRoundingOf(at::ScalarType type) {
  return std::max(kReducedRounding, roundingOf(type) > kRounding ? roundingOf(type) : 0);
}

/// An absolute tolerance for comparisons with `value`: 0 if it holds no fractions.
inline double toleranceFor(const c10::IValue &value) {
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
