// Dimensions of arguments that have a given size.
#pragma once

#include <ATen/core/ivalue.h>

#include <optional>

namespace pipec {

/// The tensors of an argument that have a dimension.
std::vector<at::Tensor> tensorsWithDims(const c10::IValue &value);

bool allHave(const std::vector<at::Tensor> &tensors, int64_t dim, int64_t size);

/// The first dimension, from `begin` on, along which all of an argument's tensors have `size`.
std::optional<int64_t> dimOfSize(const std::vector<at::Tensor> &tensors, int64_t size,
                                 int64_t begin = 0);

} // namespace pipec
