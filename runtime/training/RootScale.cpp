#include "runtime/training/RootScale.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <ATen/ops/scalar_tensor.h>
#include <c10/core/GradMode.h>

#include <numeric>

namespace pipec {

std::vector<at::Tensor> rootScales(const std::vector<int64_t> &samples, LossReduction reduction) {
  const auto all = std::accumulate(samples.begin(), samples.end(), int64_t(0));
  std::vector<at::Tensor> scales;
  scales.reserve(samples.size());
  for (int64_t count : samples) {
    const double part = reduction == LossReduction::Sum || all == 0
                            ? 1
                            : static_cast<double>(count) / static_cast<double>(all);
    scales.push_back(at::scalar_tensor(part, at::kDouble));
  }
  return scales;
}

std::vector<at::Tensor> rootScalesOfSums(size_t microBatches) {
  return std::vector<at::Tensor>(microBatches, at::scalar_tensor(1.0, at::kDouble));
}

at::Tensor rootGradient(const at::Tensor &loss, const at::Tensor &scale, bool isLocal) {
  const at::TensorOptions like = loss.options().requires_grad(false);
  if (!isLocal)
    return at::full(loss.sizes(), scale.item(), like);
  const at::Tensor number = scale.to(like);
  return loss.dim() == 0 ? number : number.reshape(loss.sizes());
}

double totalLoss(const std::vector<at::Tensor> &losses, const std::vector<at::Tensor> &scales,
                 std::optional<double> count) {
  c10::AutoGradMode noGrad(false);
  at::Tensor sum;
  for (size_t k = 0; k < losses.size(); ++k) {
    const at::Tensor part = losses[k].detach().mul(scales[k].to(losses[k].options()));
    sum = sum.defined() ? sum.add(part) : part;
  }
  if (sum.defined() && count)
    sum = sum.div(*count);
  return sum.defined() ? sum.item<double>() : 0;
}

void divideGradients(const std::vector<at::Tensor> &gradients, double count) {
  for (const at::Tensor &gradient : gradients)
    if (gradient.defined())
      at::Tensor(gradient).div_(count);
}

} // namespace pipec
