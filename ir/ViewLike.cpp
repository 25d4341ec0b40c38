#include "ir/ViewLike.h"

#include <ATen/ops/empty.h>

namespace pipec {

at::Tensor viewLike(const at::Tensor &tensor, const c10::Storage &storage, int64_t offset) {
  at::Tensor view = at::empty({0}, tensor.options().device(storage.device()).requires_grad(false));
  view.set_(storage, offset, tensor.sizes(), tensor.strides());
  view._set_conj(tensor.is_conj());
  view._set_neg(tensor.is_neg());
  return view;
}

} // namespace pipec
