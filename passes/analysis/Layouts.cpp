#include "passes/analysis/Layouts.h"

#include "llvm/ADT/STLExtras.h"

namespace pipec {

namespace {

/// The strides an elementwise operator gives its result when every operand has these sizes and
/// strides; for operands that are dense.
std::vector<int64_t> elementwiseStrides(c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  auto isOrder = [&](const std::vector<int64_t> &wanted) {
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i] != 1 && strides[i] != wanted[i])
        return false;
    }
    return true;
  };
  std::vector<int64_t> contiguous = c10::TensorType::contiguousStridesOf(sizes);
  if (isOrder(contiguous))
    return contiguous;
  if (sizes.size() == 4) {
    const int64_t c = sizes[1], h = sizes[2], w = sizes[3];
    std::vector<int64_t> channelsLast{h * w * c, 1, w * c, c};
    if (isOrder(channelsLast))
      return channelsLast;
  }
  return strides.vec();
}

bool isDense(c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  std::vector<size_t> order;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] != 1)
      order.push_back(i);
  }
  llvm::sort(order, [&](size_t a, size_t b) { return strides[a] < strides[b]; });
  int64_t expected = 1;
  for (size_t dim : order) {
    if (strides[dim] != expected)
      return false;
    expected *= sizes[dim];
  }
  return true;
}

} // namespace

std::optional<Layout> layoutOf(const c10::Type &any) {
  const auto *type = any.castRaw<c10::TensorType>();
  if (!type || !type->scalarType())
    return std::nullopt;
  auto sizes = type->sizes().concrete_sizes();
  auto strides = type->strides().concrete_sizes();
  if (!sizes || !strides)
    return std::nullopt;
  return Layout{*type->scalarType(), *sizes, *strides};
}

bool isContiguous(const Layout &layout) {
  return layout.strides == c10::TensorType::contiguousStridesOf(layout.sizes);
}

bool keepsStrides(const Layout &layout) {
  return isDense(layout.sizes, layout.strides) &&
         elementwiseStrides(layout.sizes, layout.strides) == layout.strides;
}

bool broadcastsInto(const std::vector<int64_t> &from, const std::vector<int64_t> &to) {
  if (from.size() > to.size())
    return false;
  const size_t skipped = to.size() - from.size();
  for (size_t i = 0; i < from.size(); ++i)
    if (from[i] != 1 && from[i] != to[skipped + i])
      return false;
  return true;
}

} // namespace pipec
