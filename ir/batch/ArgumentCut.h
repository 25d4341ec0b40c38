// Along which dimension an argument, or each of its parts, is cut into micro-batches.
#pragma once

#include "ir/plan/Plan.h"
#include "ir/support/Error.h"
#include "llvm/ADT/STLExtras.h"

#include <ATen/core/ivalue.h>

namespace pipec {

/// `batchDim` and `parts` of an InputSpec. A dimension alone is a cut of all tensors.
struct ArgumentCut {
  std::optional<int64_t> dim;
  std::vector<PartDim> parts; // by path

  ArgumentCut() = default;
  ArgumentCut(int64_t all) : dim(all) {}
  ArgumentCut(std::optional<int64_t> all) : dim(all) {}
  ArgumentCut(std::optional<int64_t> all, std::vector<PartDim> some)
      : dim(all), parts(std::move(some)) {}

  /// Whether anything is cut.
  bool any() const;
  /// The entry of `parts` that counts for the tensor at that path: the longest that fits. Null:
  /// none does, so `dim` counts.
  const PartDim *partOf(llvm::StringRef path) const;
  /// The dimension of the tensor at that path.
  std::optional<int64_t> at(llvm::StringRef path) const;
  /// Sets the dimension of one path.
  void set(const std::string &path, std::optional<int64_t> partDim);
  bool operator==(const ArgumentCut &) const = default;
};

/// Errors: Usage naming a part of the cut that the value does not have.
llvm::Error expectParts(const InputSpec &input, const c10::IValue &value);

ArgumentCut cutOf(const InputSpec &input);
void setCut(InputSpec &input, const ArgumentCut &cut);

/// The tensors of a value with their paths below it, depth first; "" for the value itself. Keys,
/// fields and numbers of elements, as in the paths of results.
std::vector<std::pair<std::string, at::Tensor>> tensorsByPath(const c10::IValue &value);

/// As forEachTensor and mapTensors of ir/values/MapTensors.h, with the dimension along which a
/// tensor is cut.
void forEachTensor(const c10::IValue &value, const ArgumentCut &cut,
                   llvm::function_ref<void(const at::Tensor &, std::optional<int64_t>)> visit);
c10::IValue
mapTensors(const c10::IValue &value, const ArgumentCut &cut,
           llvm::function_ref<at::Tensor(const at::Tensor &, std::optional<int64_t>)> map);

} // namespace pipec
