#include "runtime/training/RootScale.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <ATen/ops/scalar_tensor.h>
#include <c10/core/GradMode.h>

#include <numeric>
#include <utility>

namespace pipec {

std::vector<at::Tensor> rootScales(const std::vector<int64_t> &samples, LossReduction reduction,
                                   std::vector<at::Tensor> memory) {
  const auto all = std::accumulate(samples.begin(), samples.end(), int64_t(0));
  std::vector<at::Tensor> scales = std::move(memory);
  scales.clear();
  scales.reserve(samples.size());
  for (int64_t count : samples) {
    const double part = reduction == LossReduction::Sum || all == 0
                            ? 1
                            : static_cast<double>(count) / static_cast<double>(all);
    scales.push_back(at::scalar_tensor(part, at::kDouble));
  }
  return scales;
}

std::vector<at::Tensor> rootScalesOfSums(size_t microBatches, std::vector<at::Tensor> memory) {
  std::vector<at::Tensor> scales = std::move(memory);
  scales.assign(microBatches, at::scalar_tensor(1.0, at::kDouble));
  return scales;
}

at::Tensor rootGradient(const at::Tensor &loss, const at::Tensor &scale, bool isLocal) {
  const at::TensorOptions like = loss.options().requires_grad(false);
  if (!isLocal)
    return at::full(loss.sizes(), scale.item(), like);
  const at::Tensor number = scale.to(like);
  return loss.dim() == 0 ? number : number.reshape(loss.sizes());
}

void LossSum::add(const at::Tensor &loss, const at::Tensor &scale) {
  c10::AutoGradMode noGrad(false);
  const at::Tensor part = loss.detach().mul(scale.to(loss.options()));
  sum_ = sum_.defined() ? sum_.add(part) : part;
}

double LossSum::total(std::optional<double> count) const {
  if (!sum_.defined())
    return 0;
  c10::AutoGradMode noGrad(false);
  return (count ? sum_.div(*count) : sum_).item<double>();
}

void divideGradients(llvm::ArrayRef<at::Tensor> gradients, double count) {
  for (const at::Tensor &gradient : gradients)
    if (gradient.defined())
      at::Tensor(gradient).div_(count);
}

} // namespace pipec
