#include "ir/values/ArgumentText.h"

#include "ir/support/ShownText.h"
#include "ir/text/TensorText.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <ATen/core/Dict.h>
#include <ATen/core/List.h>
#include <ATen/core/jit_type.h>

namespace pipec {

namespace {

constexpr size_t kMostParts = 4, kMostLetters = 40;

std::string shortText(const c10::IValue &value);

std::string joinedParts(const std::vector<std::string> &parts) {
  if (parts.size() <= kMostParts)
    return llvm::join(parts, ", ");
  return llvm::join(parts.begin(), parts.begin() + kMostParts - 1, ", ") +
         fmt::format(", ... {} in all", parts.size());
}

std::string partsText(const std::vector<c10::IValue> &values) {
  std::vector<std::string> parts;
  for (const c10::IValue &value : values)
    parts.push_back(shortText(value));
  return joinedParts(parts);
}

/// Tensors by dtype and sizes, the rest by value; what is long, by its beginning.
std::string shortText(const c10::IValue &value) {
  if (value.isTensor())
    return value.toTensor().defined() ? tensorHeadText(value.toTensor()) : "undefined tensor";
  if (value.isTuple())
    return "(" + partsText(value.toTupleRef().elements().vec()) + ")";
  if (value.isList())
    return "[" + partsText(value.toListRef().vec()) + "]";
  if (value.isGenericDict()) {
    std::vector<std::string> parts;
    for (const auto &entry : value.toGenericDict())
      parts.push_back(shortText(entry.key()) + ": " + shortText(entry.value()));
    return "{" + joinedParts(parts) + "}";
  }
  if (value.isString()) {
    const std::string &text = value.toStringRef();
    return "\"" + shown(text.substr(0, kMostLetters)) +
           (text.size() > kMostLetters ? "...\"" : "\"");
  }
  if (value.isInt())
    return std::to_string(value.toInt());
  if (value.isDouble())
    return fmt::format("{}", value.toDouble());
  if (value.isBool())
    return value.toBool() ? "True" : "False";
  return value.tagKind();
}

/// LibTorch's words for a write that gradients do not allow, whatever the arguments.
constexpr llvm::StringLiteral kRefusedWrites[] = {"modified inplace",
                                                  "being used in an in-place operation",
                                                  "don't support automatic differentiation"};

std::string helpFor(llvm::StringRef message) {
  if (llvm::any_of(kRefusedWrites, [&](llvm::StringRef words) { return message.contains(words); }))
    return fmt::format("the model writes where gradients do not allow it: {}", kWriteElsewhere);
  return kRefusedByModel;
}

} // namespace

std::string argumentsText(const Signature &signature, llvm::ArrayRef<c10::IValue> values) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < std::min(values.size(), signature.inputs.size()); ++i)
    parts.push_back(signature.inputs[i].name + ": " + shortText(values[i]));
  return llvm::join(parts, ", ");
}

llvm::Error withArguments(llvm::Error error, const Signature &signature,
                          llvm::ArrayRef<c10::IValue> values) {
  if (!error)
    return llvm::Error::success();
  ErrorText text = describe(std::move(error));
  if (text.code == ExitCode::Usage) {
    text.message += "\n  called with " + argumentsText(signature, values);
    if (text.help.empty())
      text.help = helpFor(text.message);
  }
  return makeError(text.code, text.message, text.help);
}

} // namespace pipec
