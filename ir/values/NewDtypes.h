// Tensors of the dtypes that came after torch.save's named storages (uint16 to uint64, float8,
// ...): torch.load accepts them in one form only, which LibTorch's own pickler neither writes nor
// reads. Hand-made because a model may return them, and no library writes them. They are not read:
// readValue() refuses a file with one.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

namespace pipec {

/// Whether torch.save writes tensors of this dtype with an untyped storage and the dtype beside it.
bool isNewDtype(at::ScalarType dtype);

/// Puts such tensors into a pickle. LibTorch's pickler writes a placeholder text for each.
class NewDtypeTensors {
public:
  /// The placeholder to pickle instead of this plain CPU tensor.
  std::string standIn(const at::Tensor &tensor);
  /// The pickle with each placeholder replaced by its tensor. The elements of the k-th tensor
  /// belong in record data/(firstRecord + k).
  std::string placedIn(std::string pickle, size_t firstRecord) const;
  const std::vector<at::Tensor> &tensors() const { return tensors_; }

private:
  std::vector<at::Tensor> tensors_;
};

/// The record in which torch.save put such a tensor.
struct NewDtypeTensor {
  std::string record; // "data/1"; empty: the pickle has another form
  std::string dtype;  // "uint32"
};
/// The first one that this pickle holds.
std::optional<NewDtypeTensor> findNewDtype(llvm::StringRef pickle);

} // namespace pipec
