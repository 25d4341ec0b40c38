#include "ir/autograd/GradSum.h"

#include <ATen/core/Tensor.h>

namespace pipec {

void addGradient(at::Tensor &sum, const at::Tensor &more) {
  if (more.defined())
    sum = sum.defined() ? sum.add(more) : more;
}

} // namespace pipec
