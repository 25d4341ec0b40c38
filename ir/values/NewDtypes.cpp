#include "ir/values/NewDtypes.h"

#include "ir/support/Llvm.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

namespace pipec {

namespace {

/// Opcodes of pickle protocol 2, as Python's pickletools describes them.
class PickleText {
public:
  void global(const char *module, const std::string &name) {
    bytes_ += fmt::format("c{}\n{}\n", module, name);
  }
  void text(const std::string &value) {
    bytes_ += 'X';
    fixed(static_cast<uint32_t>(value.size()));
    bytes_ += value;
  }
  void integer(int64_t value) {
    bytes_ += "\x8a\x08";
    fixed(value);
  }
  void integers(at::IntArrayRef values) {
    bytes_ += '(';
    for (int64_t value : values)
      integer(value);
    bytes_ += 't';
  }
  void code(const char *opcodes) { bytes_ += opcodes; }
  const std::string &bytes() const { return bytes_; }

private:
  template <typename T> void fixed(T value) {
    bytes_.append(reinterpret_cast<const char *>(&value), sizeof value);
  }
  std::string bytes_;
};

/// _rebuild_tensor_v3(storage, offset, size, stride, requires_grad, hooks, dtype)
std::string rebuilding(const at::Tensor &tensor, size_t record) {
  PickleText out;
  out.global("torch._utils", "_rebuild_tensor_v3");
  out.code("((");
  out.text("storage");
  out.global("torch.storage", "UntypedStorage");
  out.text(std::to_string(record));
  out.text("cpu");
  out.integer(static_cast<int64_t>(tensor.storage().nbytes()));
  out.code("tQ");
  out.integer(tensor.storage_offset());
  out.integers(tensor.sizes());
  out.integers(tensor.strides());
  out.code("\x89"); // False
  out.global("collections", "OrderedDict");
  out.code(")R");
  out.global("torch", c10::getDtypeNames(tensor.scalar_type()).first);
  out.code("tR");
  return out.bytes();
}

std::string standInText(size_t index) { return fmt::format("\x01pipec tensor {}\x01", index); }

} // namespace

bool isNewDtype(at::ScalarType dtype) {
  constexpr at::ScalarType kNew[] = {
      at::kFloat8_e5m2,     at::kFloat8_e4m3fn,  at::kFloat8_e5m2fnuz,
      at::kFloat8_e4m3fnuz, at::kFloat8_e8m0fnu, at::kBits8,
      at::kBits16,          at::kBits1x8,        at::kBits2x4,
      at::kBits4x2,         at::kComplexHalf,    at::kUInt16,
      at::kUInt32,          at::kUInt64,         at::ScalarType::Float4_e2m1fn_x2};
  return llvm::is_contained(kNew, dtype);
}

std::string NewDtypeTensors::standIn(const at::Tensor &tensor) {
  tensors_.push_back(tensor);
  return standInText(tensors_.size() - 1);
}

std::string NewDtypeTensors::placedIn(std::string pickle, size_t firstRecord) const {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    PickleText written;
    written.text(standInText(i));
    size_t at = pickle.find(written.bytes());
    TORCH_INTERNAL_ASSERT(at != std::string::npos, "a tensor's place in the pickle is lost");
    // The opcodes that follow the placeholder store it for later use. Now they store the tensor,
    // and nothing reads it.
    pickle.replace(at, written.bytes().size(), rebuilding(tensors_[i], firstRecord + i));
  }
  return pickle;
}

std::optional<NewDtypeTensor> findNewDtype(llvm::StringRef pickle) {
  const size_t at = pickle.find("ctorch._utils\n_rebuild_tensor_v3\n");
  if (at == llvm::StringRef::npos)
    return std::nullopt;
  NewDtypeTensor found;
  llvm::StringRef rest = pickle.drop_front(at).split("ctorch.storage\nUntypedStorage\n").second;
  if (startsWith(rest, "q") || startsWith(rest, "r")) // keeps the class for later use
    rest = rest.drop_front(std::min<size_t>(rest.size(), rest[0] == 'q' ? 2 : 5));
  if (rest.consume_front("X")) { // a text, after four bytes with its length
    rest = rest.drop_front(std::min<size_t>(rest.size(), 4));
    if (const llvm::StringRef number = rest.take_while(llvm::isDigit); !number.empty())
      found.record = "data/" + number.str();
  }
  found.dtype = rest.split("ctorch\n").second.split('\n').first.str();
  return found;
}

} // namespace pipec
