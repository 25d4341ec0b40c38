#include "ir/text/ContentText.h"

#include "ir/TensorBytes.h"
#include "ir/TorchError.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/ranges.h>

#include <ATen/core/class_type.h>
#include <ATen/core/function.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

#include <atomic>
#include <sstream>

namespace pipec {

namespace {

std::string sequenceText(llvm::ArrayRef<c10::IValue> values, char open, char close, Detail detail) {
  std::string text(1, open);
  for (const c10::IValue &value : values)
    text += contentText(value, detail) + ",";
  return text + close;
}

/// A capsule is memory of a library: only its object's __getstate__ can describe the content.
std::string stateText(const c10::IValue &value) {
  const std::string type = "object " + canonicalType(value.type());
  if (!value.isObject())
    return equalToNothing(type);
  const c10::ivalue::Object &object = value.toObjectRef();
  if (torch::jit::Function *getState = object.type()->findMethod("__getstate__")) {
    llvm::Expected<c10::IValue> state =
        guardTorch(ExitCode::Internal, "__getstate__", [&] { return (*getState)({value}); });
    if (!state) {
      llvm::consumeError(state.takeError()); // its message is not the user's concern here
      return equalToNothing(type);
    }
    return type + " " + contentText(*state, Detail::Exact);
  }
  return type + " " + sequenceText(object.slots(), '<', '>', Detail::Exact);
}

/// The numbers that the whole numbers of a quantised tensor stand for.
std::string scalesText(const at::Tensor &tensor) {
  if (!tensor.is_quantized())
    return "";
  if (tensor.qscheme() == at::kPerTensorAffine)
    return fmt::format("scale={:a} zero_point={} ", tensor.q_scale(), tensor.q_zero_point());
  if (tensor.qscheme() == at::kPerChannelAffine ||
      tensor.qscheme() == at::kPerChannelAffineFloatQParams)
    return fmt::format(
        "scales={} zero_points={} axis={} ", tensorDigest(tensor.q_per_channel_scales()),
        tensorDigest(tensor.q_per_channel_zero_points()), tensor.q_per_channel_axis());
  return equalToNothing("quantised") + " ";
}

/// Strides, or the layout of a tensor that has none: two layouts may hold the same elements.
std::string layoutText(const at::Tensor &tensor) {
  if (tensor.layout() == at::kStrided && tensor.has_storage())
    return fmt::format("[{}]", fmt::join(tensor.strides(), ","));
  std::ostringstream os;
  os << tensor.layout();
  return "opaque " + os.str();
}

std::string typeOfElements(const c10::IValue &container, Detail detail) {
  return detail == Detail::Exact ? canonicalType(container.type()) + " " : "";
}

/// What the dense form of a sparse tensor does not show: zeros that are stored, and elements that
/// are stored in several parts. Empty: nothing of that.
std::string partsText(const at::Tensor &tensor) {
  const at::Tensor plain = tensor.detach();
  std::vector<at::Tensor> parts;
  if (plain.layout() == at::kSparse)
    parts = {plain._values(), plain._indices()};
  else if (plain.layout() == at::kSparseCsr || plain.layout() == at::kSparseBsr)
    parts = {plain.values(), plain.crow_indices(), plain.col_indices()};
  else if (plain.layout() == at::kSparseCsc || plain.layout() == at::kSparseBsc)
    parts = {plain.values(), plain.ccol_indices(), plain.row_indices()};
  else
    return "";
  const bool isJoined = plain.layout() != at::kSparse || plain.is_coalesced();
  if (isJoined && parts.front().ne(0).all().item<bool>())
    return "";
  std::string text = isJoined ? " stored" : " stored in parts";
  for (const at::Tensor &part : parts)
    text += " " + tensorDigest(part);
  return text;
}

std::string tensorText(const at::Tensor &tensor) {
  return tensor.defined() ? contentText(tensor, tensorDigest(tensor) + partsText(tensor))
                          : "undefined";
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
  return fmt::format("tensor({} [{}] {}{} {}{})", c10::toString(tensor.scalar_type()),
                     fmt::join(tensor.sizes(), ","), layoutText(tensor),
                     tensor.requires_grad() ? " requires_grad" : "", scalesText(tensor), digest);
}

std::string contentText(const c10::IValue &value, Detail detail) {
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
    return sequenceText(value.toTupleRef().elements().vec(), '(', ')', detail);
  if (value.isList())
    return typeOfElements(value, detail) + sequenceText(value.toListRef().vec(), '[', ']', detail);
  if (value.isGenericDict()) {
    std::vector<c10::IValue> items;
    for (const auto &item : value.toGenericDict()) {
      items.push_back(item.key());
      items.push_back(item.value());
    }
    return typeOfElements(value, detail) + sequenceText(items, '{', '}', detail);
  }
  if (value.isObject() || value.isCapsule())
    return detail == Detail::Exact ? stateText(value) : "object " + canonicalType(value.type());
  if (value.isEnum()) // the text of LibTorch lacks the value
    return fmt::format("enum {} {} {}", canonicalType(value.type()), value.toEnumHolder()->name(),
                       contentText(value.toEnumHolder()->value(), detail));
  const bool hasText = value.isNone() || value.isInt() || value.isBool() || value.isDevice();
  if (!hasText)
    return equalToNothing(value.tagKind());
  std::ostringstream os;
  os << value;
  return os.str();
}

std::string equalToNothing(llvm::StringRef what) {
  static std::atomic<size_t> count{0};
  return fmt::format("{} #{}", what.str(), count++);
}

static bool holds(const c10::IValue &value, bool (*isOne)(const c10::IValue &)) {
  bool any = false;
  value.visit([&](const c10::IValue &inner) { return any = any || isOne(inner); });
  return any;
}

bool holdsObject(const c10::IValue &value) {
  return holds(value, [](const c10::IValue &v) { return v.isObject() || v.isCapsule(); });
}

bool hasExactText(const c10::IValue &value) {
  return holdsObject(value) ||
         holds(value, [](const c10::IValue &v) { return v.isList() || v.isGenericDict(); });
}

} // namespace pipec
