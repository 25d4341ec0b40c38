#include "runtime/training/GradientNorm.h"

#include "llvm/ADT/STLExtras.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

namespace pipec {

at::Tensor gradientNorm(const at::Tensor &gradient) {
  if (gradient.is_sparse())
    return gradient.norm();
  return at::linalg_vector_norm(gradient, 2.0);
}

at::Tensor totalNorm(llvm::ArrayRef<at::Tensor> norms) {
  if (norms.empty())
    return at::zeros({});
  const c10::Device device = norms.front().device();
  std::vector<at::Tensor> together; // of several devices
  if (llvm::any_of(norms, [&](const at::Tensor &norm) { return norm.device() != device; })) {
    for (const at::Tensor &norm : norms)
      together.push_back(norm.to(device));
    norms = together;
  }
  // stack() takes the widest dtype.
  return at::linalg_vector_norm(at::stack(at::TensorList(norms.data(), norms.size())), 2.0);
}

at::Tensor clipFactor(const at::Tensor &totalNorm, double most) {
  return totalNorm.add(1e-6).reciprocal().mul(most).clamp_max(1.0);
}

void clipGradients(llvm::ArrayRef<at::Tensor> gradients, const at::Tensor &factor) {
  for (const at::Tensor &gradient : gradients)
    if (gradient.defined())
      at::Tensor(gradient).mul_(factor.to(gradient.device()));
}

} // namespace pipec
