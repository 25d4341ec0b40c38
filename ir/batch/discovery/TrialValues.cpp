#include "ir/batch/discovery/TrialValues.h"

#include "ir/batch/MicroBatch.h"
#include "ir/batch/discovery/Rounding.h"
#include "ir/values/MapTensors.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>

#include <array>
#include <cmath>

namespace pipec {

namespace {

/// Shifts along the last dimension and fills the free places with the first element. The counts of
/// the values change, but a mask that begins at one end still does.
at::Tensor shifted(const at::Tensor &tensor, int64_t by) {
  const at::Tensor from = at::arange(tensor.size(-1), at::kLong).sub(by).clamp_min(0);
  return tensor.index_select(-1, from);
}

/// Other values in the same range: masks are shifted, other whole numbers reversed.
at::Tensor rearranged(const at::Tensor &tensor) {
  return tensor.scalar_type() == at::kBool ? shifted(tensor, 1) : tensor.flip(-1);
}

/// Whether it has one number per sample, equal for all, such as a label: some then get another one.
/// Different numbers stay, because some kernels rely on sorted offsets and lengths. So does 0,
/// which may be an offset.
bool isOneLabel(const at::Tensor &tensor) {
  return tensor.dim() == 1 && tensor.eq(tensor[0]).all().item<bool>() &&
         (tensor.scalar_type() == at::kBool || tensor[0].gt(0).item<bool>());
}

/// Whether it has one number per index of dimension `dim`, equal for all.
bool hasEqualNumbers(const at::Tensor &tensor, int64_t dim) {
  return tensor.defined() && dim < tensor.dim() && tensor.layout() == at::kStrided &&
         !tensor.is_quantized() && !tensor.is_complex() && tensor.numel() > 1 &&
         tensor.numel() == tensor.size(dim) && tensor.eq(tensor.flatten()[0]).all().item<bool>();
}

/// 0 and 1 are likely to be flags, other whole numbers labels that have a smaller one.
at::Tensor otherNumber(const at::Tensor &one) {
  if (one.scalar_type() == at::kBool)
    return one.logical_not();
  if (one.eq(0).item<bool>())
    return one.add(1);
  return one.is_floating_point() || one.lt(0).item<bool>() ? at::zeros_like(one) : one.sub(1);
}

void changeNumbers(at::Tensor &row, bool isLabel, int64_t repeated, Spread how) {
  if (row.dim() > 0 && how == Spread::Counts)
    row.copy_(shifted(row.clone(), repeated));
  else if (row.dim() > 0 && repeated % 2)
    row.copy_(row.clone().flip(-1));
  else if (isLabel && how == Spread::Counts && repeated % 2)
    row.copy_(row.scalar_type() == at::kBool ? row.logical_not() : row.sub(1));
}

} // namespace

bool hasFractions(const at::Tensor &tensor) {
  return tensor.is_floating_point() || tensor.is_complex();
}

Values resized(llvm::ArrayRef<c10::IValue> inputs, const CutDims &dims, int64_t samples) {
  Values result;
  for (size_t i = 0; i < inputs.size(); ++i)
    result.push_back(resizeBatch(inputs[i], dims[i], samples));
  return result;
}

Values mapCut(llvm::ArrayRef<c10::IValue> inputs, const CutDims &dims,
              llvm::function_ref<at::Tensor(const at::Tensor &, int64_t)> change) {
  at::NoGradGuard noGrad;
  Values result;
  for (size_t i = 0; i < inputs.size(); ++i)
    result.push_back(
        mapTensors(inputs[i], dims[i], [&](const at::Tensor &tensor, std::optional<int64_t> dim) {
          const bool cut = dim && tensor.defined() && *dim < tensor.dim();
          return cut ? change(tensor, *dim) : tensor;
        }));
  return result;
}

Values partOf(llvm::ArrayRef<c10::IValue> inputs, const CutDims &dims, int64_t begin,
              int64_t count) {
  return mapCut(inputs, dims, [&](const at::Tensor &tensor, int64_t dim) {
    return tensor.narrow(dim, begin, count);
  });
}

Values firstSamples(llvm::ArrayRef<c10::IValue> inputs, const CutDims &dims, int64_t samples) {
  const Values few = mapCut(inputs, dims, [&](const at::Tensor &tensor, int64_t dim) {
    return tensor.size(dim) > samples ? tensor.narrow(dim, 0, samples) : tensor;
  });
  return resized(few, dims, samples);
}

Values reordered(llvm::ArrayRef<c10::IValue> inputs, const CutDims &dims,
                 const std::vector<int64_t> &order) {
  return mapCut(inputs, dims, [&](const at::Tensor &tensor, int64_t dim) {
    return tensor.index_select(dim, at::tensor(order, at::kLong));
  });
}

at::Tensor otherValues(const at::Tensor &tensor, double factor) {
  const c10::IValue copied = ownCopies({c10::IValue(tensor)}).front();
  at::Tensor other = copied.toTensor();
  if (hasFractions(tensor))
    other.mul_(factor);
  else
    other.copy_(rearranged(tensor));
  return other;
}

Values poke(llvm::ArrayRef<c10::IValue> inputs, const CutDims &dims, int64_t sample) {
  return mapCut(inputs, dims, [&](const at::Tensor &tensor, int64_t dim) {
    const c10::IValue copied = ownCopies({c10::IValue(tensor)}).front();
    at::Tensor row = copied.toTensor().select(dim, sample);
    if (hasFractions(tensor))
      row.mul_(0.5);
    else if (tensor.dim() > 1)
      row.copy_(rearranged(row.clone()));
    else // a number per sample: takes another sample's
      row.copy_(tensor.select(dim, (sample + 1) % tensor.size(dim)));
    return copied.toTensor();
  });
}

Values spread(llvm::ArrayRef<c10::IValue> inputs, const CutDims &dims, int64_t samples, Spread how,
              bool &distinct) {
  distinct = false;
  return mapCut(inputs, dims, [&](const at::Tensor &tensor, int64_t dim) {
    const c10::IValue copied = ownCopies({c10::IValue(tensor)}).front();
    const int64_t size = tensor.size(dim);
    const bool isLabel = size > 0 && !hasFractions(tensor) && isOneLabel(tensor);
    int64_t repeated = 0;
    for (int64_t k = 1; k < size; ++k) {
      const bool isNew = k * samples / size != (k - 1) * samples / size; // as resizeBatch repeats
      repeated = isNew ? 0 : repeated + 1;
      if (repeated == 0)
        continue;
      at::Tensor row = copied.toTensor().select(dim, k);
      if (hasFractions(tensor)) // rolled as well, because a norm undoes a factor
        row.copy_((tensor.dim() > 1 ? row.roll(repeated, -1) : row.clone())
                      .mul(1 - static_cast<double>(repeated) / 16));
      else
        changeNumbers(row, isLabel, repeated, how);
    }
    distinct = distinct || !copied.toTensor().equal(tensor);
    return copied.toTensor();
  });
}

bool hasEqualLabels(llvm::ArrayRef<c10::IValue> inputs, const CutDims &dims) {
  bool any = false;
  mapCut(inputs, dims, [&](const at::Tensor &tensor, int64_t dim) {
    any = any || hasEqualNumbers(tensor, dim);
    return tensor;
  });
  return any;
}

Values mixedLabels(llvm::ArrayRef<c10::IValue> inputs, const CutDims &dims, bool inBoth) {
  const std::array<bool, 6> changes = {false, inBoth, inBoth, !inBoth, false, true};
  at::NoGradGuard noGrad;
  Values result;
  for (size_t i = 0; i < inputs.size(); ++i)
    result.push_back(
        mapTensors(inputs[i], dims[i], [&](const at::Tensor &tensor, std::optional<int64_t> dim) {
          if (!hasEqualNumbers(tensor, dim.value_or(0)))
            return tensor;
          const c10::IValue copied = ownCopies({c10::IValue(tensor)}).front();
          at::Tensor flat = copied.toTensor().squeeze();
          const at::Tensor other = otherNumber(flat[0].clone());
          for (int64_t k = 0; k < flat.numel(); ++k)
            if (changes[static_cast<size_t>(k) % changes.size()])
              flat[k].copy_(other);
          return copied.toTensor();
        }));
  return result;
}

Values movedNumbers(llvm::ArrayRef<c10::IValue> inputs, const CutDims &dims, double factor) {
  return mapCut(inputs, dims, [&](const at::Tensor &tensor, int64_t dim) {
    if (!tensor.is_floating_point() || tensor.layout() != at::kStrided || tensor.is_quantized() ||
        hasEqualNumbers(tensor, dim))
      return tensor;
    const c10::IValue copied = ownCopies({c10::IValue(tensor)}).front();
    const double largest = largestFinite(tensor);
    const at::Tensor wave = at::arange(tensor.numel(), at::kDouble)
                                .mul(2.4)
                                .add(1)
                                .sin()
                                .mul(0.4 * (largest > 0 ? largest : 1))
                                .view(tensor.sizes());
    const at::Tensor finite = tensor.masked_fill(tensor.isfinite().logical_not(), 0);
    copied.toTensor().copy_(finite.add(wave).mul(factor));
    return copied.toTensor();
  });
}

at::Tensor uneven(const at::Tensor &tensor) {
  if (!tensor.defined() || !tensor.is_floating_point() || tensor.layout() != at::kStrided ||
      tensor.numel() < 2 || tensor.is_quantized())
    return tensor;
  const at::Tensor first = tensor.detach().flatten()[0];
  const double value = first.item<double>();
  if (!std::isfinite(value) || !tensor.detach().eq(first).all().item<bool>())
    return tensor;
  const c10::IValue copied = ownCopies({c10::IValue(tensor)}).front();
  const at::Tensor wave =
      at::arange(tensor.numel(), at::kDouble).mul(2.4).add(1).sin().view(tensor.sizes());
  copied.toTensor().detach().copy_(wave.mul(value == 0 ? 0.5 : 0.25 * std::abs(value)).add(value));
  return copied.toTensor();
}

} // namespace pipec
