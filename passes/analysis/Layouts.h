// The form of a tensor (dtype, sizes, strides) that types determine, and the forms that an
// elementwise operator preserves.
#pragma once

#include <ATen/core/jit_type.h>

#include <optional>
#include <vector>

namespace pipec {

struct Layout {
  c10::ScalarType dtype;
  std::vector<int64_t> sizes, strides;
};

/// Absent unless the type determines all of it.
std::optional<Layout> layoutOf(const c10::Type &type);
/// Whether all strides are those of a new tensor of these sizes.
bool isContiguous(const Layout &layout);
/// Whether every elementwise operator whose operands have these strides gives them to its result.
bool keepsStrides(const Layout &layout);
/// Whether `from` broadcasts to `to` without changing the sizes of `to`.
bool broadcastsInto(const std::vector<int64_t> &from, const std::vector<int64_t> &to);

} // namespace pipec
