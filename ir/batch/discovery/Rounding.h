// How much two results may differ and still count as equal: another batch size runs other kernels.
#pragma once

#include <ATen/core/ivalue.h>
#include <c10/core/ScalarType.h>

namespace pipec {

inline constexpr double kRounding = 1e-3; // of the largest number
/// For sums and means: these hardly differ, and an average of values that are no mean may come
/// close.
inline constexpr double kReducedRounding = 5e-5;

/// The same for a dtype of few bits, for which 64 roundings exceed kRounding.
double roundingOf(at::ScalarType type);
double reducedRoundingOf(at::ScalarType type);

/// The largest absolute value among the finite fractions of a tensor; 0: it has none.
double largestFinite(const at::Tensor &tensor);

/// An absolute tolerance for comparisons with `value`: 0 if it holds no finite fractions.
double toleranceFor(const c10::IValue &value);

} // namespace pipec
