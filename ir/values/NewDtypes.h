// Tensors of the dtypes that came after torch.save's named storages (uint16 to uint64, float8,
// ...): torch.load accepts them in one form only, which LibTorch's own pickler neither writes nor
// reads.
#pragma once

#include <ATen/core/Tensor.h>
#include <caffe2/serialize/inline_container.h>

#include <string>
#include <vector>

namespace pipec {

/// Whether torch.save writes tensors of this dtype with an untyped storage and the dtype beside it.
bool isNewDtype(at::ScalarType dtype);

/// Puts such tensors into a pickle: LibTorch's pickler writes a text in the place of each.
class NewDtypeTensors {
public:
  /// The text to pickle instead of this plain CPU tensor.
  std::string standIn(const at::Tensor &tensor);
  /// The pickle with every tensor in its place; the k-th one's elements belong into record
  /// data/(firstRecord + k).
  std::string placedIn(std::string pickle, size_t firstRecord) const;
  const std::vector<at::Tensor> &tensors() const { return tensors_; }

private:
  std::vector<at::Tensor> tensors_;
};

/// Whether this pickle holds such a tensor.
bool holdsNewDtypes(const std::string &pickle);
/// Reads a pickle of torch.save that does: tuples, lists, dicts, tensors and plain values. Throws
/// LibTorch's exceptions for anything else.
c10::IValue readNewDtypes(const std::string &pickle, caffe2::serialize::PyTorchStreamReader &file);

} // namespace pipec
