// What types tell of a tensor's form, and which forms an elementwise operator leaves as they are.
#pragma once

#include <ATen/core/jit_type.h>

#include <optional>
#include <vector>

namespace pipec {

struct Layout {
  c10::ScalarType dtype;
  std::vector<int64_t> sizes, strides;
};

/// Absent unless the type tells all of it.
std::optional<Layout> layoutOf(const c10::Type &type);
/// Strides are those of a new tensor of the sizes, to the last number.
bool isContiguous(const Layout &layout);
/// Every elementwise operator gives these strides to its result when all operands have them.
bool keepsStrides(const Layout &layout);
/// `from` is broadcast to `to` and leaves its sizes as they are.
bool broadcastsInto(const std::vector<int64_t> &from, const std::vector<int64_t> &to);

} // namespace pipec
