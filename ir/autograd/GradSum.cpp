#include "ir/autograd/GradSum.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/utils/grad_layout_contract.h>

#include <utility>

namespace pipec {

void addGradient(at::Tensor &sum, const at::Tensor &more) {
  if (!more.defined())
    return;
  const bool swap = sum.defined() && sum.layout() != at::kStrided && more.layout() == at::kStrided;
  sum = !sum.defined() ? more : swap ? more.add(sum) : sum.add(more);
}

at::Tensor denseGradient(const at::Tensor &gradient) {
  return gradient.layout() == at::kStrided ? gradient : gradient.to_dense();
}

bool isOwn(const at::Tensor &gradient) {
  return gradient.use_count() == 1 && gradient.storage().use_count() == 1;
}

void accumulateGradient(at::Tensor &sum, at::Tensor more, const at::Tensor &parameter) {
  if (!more.defined())
    return;
  const bool isDense = more.layout() == at::kStrided;
  if (!sum.defined()) {
    if (!isDense)
      sum = more.clone();
    else if (isOwn(more) && torch::autograd::utils::obeys_layout_contract(more, parameter))
      sum = std::move(more);
    else
      sum = torch::autograd::utils::clone_obey_contract(more, parameter);
  } else if (isDense && sum.layout() != at::kStrided) {
    sum = more.add(sum); // a sum with a dense one is dense
  } else {
    sum.add_(more);
  }
}

} // namespace pipec
