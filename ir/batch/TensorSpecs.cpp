#include "ir/batch/TensorSpecs.h"

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

namespace pipec {

namespace {

/// a*B+b through all points, with a and b not negative (other lines have no text form); dynamic
/// when there is none.
Dim fitLine(llvm::ArrayRef<std::pair<int64_t, int64_t>> points) {
  Dim dim;
  auto [firstBatch, firstValue] = points.front();
  dim.constant = firstValue;
  for (auto [batch, value] : points)
    if (batch != firstBatch) {
      dim.perBatch = (value - firstValue) / (batch - firstBatch);
      dim.constant = firstValue - dim.perBatch * firstBatch;
      break;
    }
  bool fits = llvm::all_of(points, [&](auto point) { return dim.at(point.first) == point.second; });
  if (fits && dim.perBatch >= 0 && dim.constant >= 0)
    return dim;
  Dim unknown;
  unknown.dynamic = true;
  return unknown;
}

std::vector<Dim> fitAll(llvm::ArrayRef<std::pair<int64_t, TensorSpec>> seen,
                        std::vector<Dim> TensorSpec::*field) {
  std::vector<Dim> dims;
  for (size_t d = 0; d < (seen.front().second.*field).size(); ++d) {
    std::vector<std::pair<int64_t, int64_t>> points;
    for (const auto &[batch, spec] : seen)
      points.emplace_back(batch, (spec.*field)[d].constant);
    dims.push_back(fitLine(points));
  }
  return dims;
}

Dim constantDim(int64_t value) { return {.perBatch = 0, .constant = value, .dynamic = false}; }

} // namespace

/// A nested tensor has no sizes.
static bool isKnown(const at::Tensor &tensor) {
  return tensor.defined() && tensor.layout() == at::kStrided && !tensor.is_nested();
}

std::string dtypeOf(const at::Tensor &tensor) {
  return isKnown(tensor) ? c10::getDtypeNames(tensor.scalar_type()).first : std::string();
}

TensorSpec specOf(const at::Tensor &tensor) {
  TensorSpec spec;
  spec.known = isKnown(tensor);
  if (!spec.known)
    return spec;
  spec.dtype = dtypeOf(tensor);
  for (int64_t size : tensor.sizes())
    spec.shape.push_back(constantDim(size));
  for (int64_t stride : tensor.strides())
    spec.strides.push_back(constantDim(stride));
  spec.requiresGrad = tensor.requires_grad();
  spec.bytes = static_cast<int64_t>(tensor.nbytes());
  return spec;
}

TensorSpec fitSpec(llvm::ArrayRef<std::pair<int64_t, TensorSpec>> seen) {
  if (seen.empty())
    return {};
  TensorSpec spec = seen.front().second;
  bool alike = llvm::all_of(seen, [&](const auto &entry) {
    return entry.second.known && entry.second.dtype == spec.dtype &&
           entry.second.shape.size() == spec.shape.size();
  });
  if (!alike)
    return {};
  spec.shape = fitAll(seen, &TensorSpec::shape);
  spec.strides = fitAll(seen, &TensorSpec::strides);
  spec.requiresGrad =
      llvm::any_of(seen, [](const auto &entry) { return entry.second.requiresGrad; });
  return spec;
}

} // namespace pipec
