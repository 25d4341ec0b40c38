#include "ir/TensorKey.h"

#include <algorithm>
#include <numeric>

namespace pipec {

namespace {

/// Tensors without plain memory (sparse, quantised objects) are distinguished by their
/// implementation object.
bool hasMemory(const at::Tensor &tensor) {
  return tensor.has_storage() && tensor.layout() == at::kStrided;
}

} // namespace

TensorKey keyOf(const at::Tensor &tensor) {
  bool memory = hasMemory(tensor) && tensor.numel() > 0;
  auto address = memory ? reinterpret_cast<uintptr_t>(tensor.const_data_ptr())
                        : reinterpret_cast<uintptr_t>(tensor.unsafeGetTensorImpl());
  unsigned seen = (tensor.requires_grad() ? 1u : 0u) | (tensor.is_conj() ? 2u : 0u) |
                  (tensor.is_neg() ? 4u : 0u);
  return {address, tensor.sizes().vec(),
          hasMemory(tensor) ? tensor.strides().vec() : std::vector<int64_t>{},
          static_cast<int>(tensor.scalar_type()), seen};
}

std::pair<uintptr_t, uintptr_t> extentOf(const at::Tensor &tensor) {
  if (!tensor.defined() || !hasMemory(tensor) || tensor.numel() == 0)
    return {0, 0};
  auto begin = reinterpret_cast<uintptr_t>(tensor.const_data_ptr());
  int64_t last = 0;
  for (int64_t d = 0; d < tensor.dim(); ++d)
    last += (tensor.size(d) - 1) * tensor.stride(d);
  return {begin, begin + (last + 1) * tensor.element_size()};
}

std::vector<int64_t> storageIds(const std::vector<at::Tensor> &tensors) {
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::vector<std::pair<uintptr_t, uintptr_t>> extents;
  for (const at::Tensor &tensor : tensors)
    extents.push_back(extentOf(tensor));
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return extents[a].first < extents[b].first; });

  // Groups of overlapping extents, in order of address; then numbered in order of encounter.
  std::vector<int64_t> group(tensors.size(), -1);
  int64_t groups = 0;
  uintptr_t end = 0;
  for (size_t i : order) {
    if (!tensors[i].defined())
      continue;
    bool empty = extents[i].first == extents[i].second;
    if (empty || extents[i].first >= end)
      group[i] = groups++;
    else
      group[i] = groups - 1;
    if (!empty)
      end = std::max(end, extents[i].second);
  }
  std::vector<int64_t> numberOf(groups, -1), ids(tensors.size(), -1);
  int64_t next = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (group[i] < 0)
      continue;
    if (numberOf[group[i]] < 0)
      numberOf[group[i]] = next++;
    ids[i] = numberOf[group[i]];
  }
  return ids;
}

} // namespace pipec
