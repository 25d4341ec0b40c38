#include "ir/text/ContentText.h"

#include "ir/TensorBytes.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/ranges.h>

#include <ATen/core/function.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

#include <atomic>
#include <sstream>

namespace pipec {

namespace {

std::string sequenceText(llvm::ArrayRef<c10::IValue> values, char open, char close,
                         Objects objects) {
  std::string text(1, open);
  for (const c10::IValue &value : values)
    text += contentText(value, objects) + ",";
  return text + close;
}

/// A capsule is memory of a library: only its object's __getstate__ can describe the content.
std::string stateText(const c10::IValue &value) {
  const std::string type = "object " + canonicalType(value.type());
  if (!value.isObject())
    return equalToNothing(type);
  const c10::ivalue::Object &object = value.toObjectRef();
  if (torch::jit::Function *getState = object.type()->findMethod("__getstate__"))
    return type + " " + contentText((*getState)({value}), Objects::ByState);
  return type + " " + sequenceText(object.slots(), '<', '>', Objects::ByState);
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

std::string contentText(const c10::IValue &value, Objects objects) {
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
    return sequenceText(value.toTupleRef().elements().vec(), '(', ')', objects);
  if (value.isList())
    return sequenceText(value.toListRef().vec(), '[', ']', objects);
  if (value.isGenericDict()) {
    std::vector<c10::IValue> items;
    for (const auto &item : value.toGenericDict()) {
      items.push_back(item.key());
      items.push_back(item.value());
    }
    return sequenceText(items, '{', '}', objects);
  }
  if (value.isObject() || value.isCapsule())
    return objects == Objects::ByState ? stateText(value) : "object " + canonicalType(value.type());
  std::ostringstream os;
  os << value;
  return os.str();
}

std::string equalToNothing(llvm::StringRef what) {
  static std::atomic<size_t> count{0};
  return fmt::format("{} #{}", what.str(), count++);
}

bool holdsObject(const c10::IValue &value) {
  bool any = false;
  value.visit([&](const c10::IValue &inner) {
    any = any || inner.isObject() || inner.isCapsule();
    return any;
  });
  return any;
}

} // namespace pipec
