// The tensors in a tree of values.
#pragma once

#include "llvm/ADT/STLExtras.h"

#include <ATen/core/ivalue.h>

#include <vector>

namespace pipec {

/// Calls `visit` on each tensor in a tree, depth first.
void forEachTensor(const c10::IValue &value, llvm::function_ref<void(const at::Tensor &)> visit);
/// All of them, in that order.
std::vector<at::Tensor> tensorsIn(const c10::IValue &value);
/// Whether one of them was computed from a tensor with a gradient.
bool hasGraph(const c10::IValue &value);
/// A copy of the tree with every tensor replaced by the result of `map`; containers keep their
/// types.
c10::IValue mapTensors(const c10::IValue &value,
                       llvm::function_ref<at::Tensor(const at::Tensor &)> map);

} // namespace pipec
