#include "ir/text/TensorText.h"

#include "ir/Refusals.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/ranges.h>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <array>
#include <cstring>

namespace pipec {
namespace {

struct DtypeName {
  at::ScalarType type;
  const char *name;
};
constexpr std::array<DtypeName, 12> kDtypes = {{{at::kByte, "uint8"},
                                                {at::kChar, "int8"},
                                                {at::kShort, "int16"},
                                                {at::kInt, "int32"},
                                                {at::kLong, "int64"},
                                                {at::kHalf, "float16"},
                                                {at::kBFloat16, "bfloat16"},
                                                {at::kFloat, "float32"},
                                                {at::kDouble, "float64"},
                                                {at::kComplexFloat, "complex64"},
                                                {at::kComplexDouble, "complex128"},
                                                {at::kBool, "bool"}}};

} // namespace

llvm::Expected<std::string> dtypeText(at::ScalarType type) {
  for (const DtypeName &row : kDtypes)
    if (row.type == type)
      return row.name;
  return refuseWith(Refusal::NoTextForm, fmt::format("dtype {}", c10::toString(type)));
}

std::optional<at::ScalarType> dtypeFromText(llvm::StringRef text) {
  for (const DtypeName &row : kDtypes)
    if (text == row.name)
      return row.type;
  return std::nullopt;
}

std::string tensorHeadText(const at::Tensor &tensor) {
  std::string dtype = c10::toString(tensor.scalar_type());
  if (llvm::Expected<std::string> name = dtypeText(tensor.scalar_type()))
    dtype = *name;
  else
    llvm::consumeError(name.takeError());
  return fmt::format("{}[{}]", dtype, fmt::join(tensor.sizes(), ","));
}

llvm::Expected<TensorHead> tensorHeadFromText(llvm::StringRef text) {
  const auto [name, rest] = text.split('[');
  const std::optional<at::ScalarType> dtype = dtypeFromText(name);
  llvm::StringRef sizes = rest;
  if (!dtype || !sizes.consume_back("]"))
    return failf(ExitCode::Unreadable, "expected a tensor like float32[8,16], got {}", text.str());
  TensorHead head{*dtype, {}};
  while (!sizes.empty()) {
    const auto [first, more] = sizes.split(',');
    int64_t size = 0;
    if (first.getAsInteger(10, size) || size < 0)
      return failf(ExitCode::Unreadable, "{}: expected a size, got {}", text.str(), first.str());
    head.sizes.push_back(size);
    sizes = more;
  }
  return head;
}

std::string elementBytes(const at::Tensor &tensor) {
  const at::Tensor flat = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous();
  return std::string(static_cast<const char *>(flat.const_data_ptr()), flat.nbytes());
}

llvm::Error setElements(at::Tensor &tensor, llvm::StringRef bytes) {
  const size_t expected = static_cast<size_t>(tensor.numel()) * tensor.element_size();
  if (bytes.size() != expected)
    return failf(ExitCode::Unreadable, "{}: expected {} bytes, got {}", tensorHeadText(tensor),
                 expected, bytes.size());
  at::Tensor flat = at::empty(tensor.sizes(), tensor.options().requires_grad(false));
  if (!bytes.empty()) // of an empty tensor both pointers may be null, which memcpy does not allow
    std::memcpy(flat.data_ptr(), bytes.data(), bytes.size());
  tensor.copy_(flat);
  return llvm::Error::success();
}

void fillFromSeed(at::Tensor &tensor, uint64_t seed) {
  const at::Generator generator = at::detail::createCPUGenerator(seed);
  at::Tensor flat = at::empty(tensor.sizes(), tensor.options().requires_grad(false));
  if (flat.is_floating_point() || flat.is_complex())
    flat.normal_(0, 1, generator);
  else if (flat.scalar_type() == at::kBool)
    flat.random_(0, 2, generator);
  else
    flat.random_(0, 8, generator);
  tensor.copy_(flat);
}

std::string hexText(llvm::StringRef bytes) { return llvm::toHex(bytes, /*LowerCase=*/true); }

std::optional<std::string> parseHex(llvm::StringRef text) {
  if (text.size() % 2 != 0 || !llvm::all_of(text, llvm::isHexDigit))
    return std::nullopt;
  return llvm::fromHex(text);
}

} // namespace pipec
