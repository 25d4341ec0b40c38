#include "ir/text/ContentText.h"

#include "ir/TensorBytes.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/ranges.h>

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

#include <sstream>

namespace pipec {

namespace {

std::string sequenceText(llvm::ArrayRef<c10::IValue> values, char open, char close) {
  std::string text(1, open);
  for (const c10::IValue &value : values)
    text += contentText(value) + ",";
  return text + close;
}

std::string tensorText(const at::Tensor &tensor) {
  return tensor.defined() ? contentText(tensor, tensorDigest(tensor)) : "undefined";
}

} // namespace

std::string canonicalType(const c10::TypePtr &type) {
  return canonicalType(type->annotation_str());
}

std::string canonicalType(llvm::StringRef text) {
  std::string result;
  constexpr llvm::StringRef kMangle = "___torch_mangle_";
  for (size_t at = text.find(kMangle); at != llvm::StringRef::npos; at = text.find(kMangle)) {
    result += text.take_front(at).str();
    text = text.drop_front(at + kMangle.size()).drop_while([](char c) { return llvm::isDigit(c); });
    text.consume_front(".");
  }
  return result + text.str();
}

std::string contentText(const at::Tensor &tensor, const std::string &digest) {
  std::string strides = tensor.layout() == at::kStrided && tensor.has_storage()
                            ? fmt::format("[{}]", fmt::join(tensor.strides(), ","))
                            : "opaque";
  return fmt::format("tensor({} [{}] {}{} {})", c10::toString(tensor.scalar_type()),
                     fmt::join(tensor.sizes(), ","), strides,
                     tensor.requires_grad() ? " requires_grad" : "", digest);
}

std::string contentText(const c10::IValue &value) {
  if (value.isDouble()) // every bit counts: -0.0 and denormals included
    return fmt::format("{:a}", value.toDouble());
  if (value.isString())
    return "\"" + llvm::toHex(value.toStringRef()) + "\"";
  if (value.isTensor())
    return tensorText(value.toTensor());
  if (value.isComplexDouble())
    return fmt::format("{:a}{:+a}j", value.toComplexDouble().real(),
                       value.toComplexDouble().imag());
  if (value.isTuple())
    return sequenceText(value.toTupleRef().elements().vec(), '(', ')');
  if (value.isList())
    return sequenceText(value.toListRef().vec(), '[', ']');
  if (value.isGenericDict()) {
    std::vector<c10::IValue> items;
    for (const auto &item : value.toGenericDict()) {
      items.push_back(item.key());
      items.push_back(item.value());
    }
    return sequenceText(items, '{', '}');
  }
  if (value.isObject() || value.isCapsule()) // their content is the writer's and reader's business
    return "object " + canonicalType(value.type());
  std::ostringstream os;
  os << value;
  return os.str();
}

} // namespace pipec
