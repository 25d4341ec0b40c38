#include "runtime/training/MultiplyBy.h"

#include <ATen/ScalarOps.h>

namespace pipec {

at::Tensor &multiplyBy(at::Tensor &tensor, double factor) {
  return tensor.mul_(at::native::wrapped_scalar_tensor(factor));
}

} // namespace pipec
