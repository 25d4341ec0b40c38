#include "ir/ModelSignature.h"

#include "ir/Refusals.h"
#include "ir/plan/DefaultValue.h"
#include "ir/plan/PlanNames.h"
#include "ir/support/Words.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace pipec {

namespace {

/// None, bool, int, float, complex, str, device or a list or tuple of these; nullopt for other
/// values.
std::optional<llvm::json::Value> jsonOf(const c10::IValue &value) {
  if (value.isNone())
    return llvm::json::Value(nullptr);
  if (value.isBool())
    return llvm::json::Value(value.toBool());
  if (value.isInt())
    return llvm::json::Value(value.toInt());
  if (value.isDouble())
    return floatDefault(value.toDouble());
  if (value.isComplexDouble())
    return complexDefault({value.toComplexDouble().real(), value.toComplexDouble().imag()});
  if (value.isDevice())
    return deviceDefault(value.toDevice().str());
  if (value.isString())
    return llvm::json::Value(value.toStringRef());
  if (!value.isList() && !value.isTuple())
    return std::nullopt;
  llvm::json::Array array;
  for (const c10::IValue &element :
       value.isTuple() ? value.toTupleRef().elements().vec() : value.toListRef().vec()) {
    std::optional<llvm::json::Value> json = jsonOf(element);
    if (!json)
      return std::nullopt;
    array.push_back(std::move(*json));
  }
  return value.isTuple() ? tupleDefault(std::move(array)) : llvm::json::Value(std::move(array));
}

/// The type that a values file cannot hold, in Python's words; empty for other types. The actual
/// type of Any is known only when the value is written.
std::string withoutPlainForm(const c10::Type &type) {
  switch (type.kind()) {
  case c10::TypeKind::DeviceObjType:
    return "a torch.device";
  case c10::TypeKind::FutureType:
  case c10::TypeKind::AwaitType:
    return "a future";
  case c10::TypeKind::GeneratorType:
    return "a torch.Generator";
  case c10::TypeKind::StreamObjType:
    return "a stream";
  case c10::TypeKind::EnumType:
  case c10::TypeKind::ClassType:
  case c10::TypeKind::InterfaceType:
    return "an object of class " + type.annotation_str();
  case c10::TypeKind::StorageType:
  case c10::TypeKind::CapsuleType:
  case c10::TypeKind::RRefType:
  case c10::TypeKind::QuantizerType:
  case c10::TypeKind::PyObjectType:
  case c10::TypeKind::FunctionType:
    return "a value of type " + type.annotation_str();
  default: // c10 has many more kinds than containers and numbers, and gets new ones
    break;
  }
  for (const c10::TypePtr &contained : type.containedTypes())
    if (std::string found = withoutPlainForm(*contained); !found.empty())
      return found;
  return "";
}

} // namespace

Signature signatureOf(const c10::FunctionSchema &schema, const std::string &method) {
  Signature signature;
  signature.method = method;
  for (size_t i = 1; i < schema.arguments().size(); ++i) { // 0 is self
    const c10::Argument &argument = schema.arguments()[i];
    InputSpec input;
    input.name = argument.name();
    input.type = argument.type()->annotation_str();
    if (argument.default_value())
      input.defaultValue = jsonOf(*argument.default_value());
    signature.inputs.push_back(std::move(input));
  }
  OutputLeaf leaf;
  if (!schema.returns().empty())
    leaf.type = schema.returns()[0].type()->annotation_str();
  signature.leaves.push_back(std::move(leaf));
  return signature;
}

llvm::Error checkResult(const c10::FunctionSchema &schema, const std::string &where) {
  for (const c10::Argument &result : schema.returns())
    if (std::string found = withoutPlainForm(*result.type()); !found.empty())
      return refuseWith(Refusal::ResultWithoutForm, where, found, result.type()->annotation_str());
  return llvm::Error::success();
}

llvm::Expected<std::vector<bool>>
applyBatchDims(Signature &signature,
               const std::vector<std::pair<std::string, std::optional<int64_t>>> &dims) {
  std::vector<std::string> names;
  for (const InputSpec &input : signature.inputs)
    names.push_back(input.name);
  std::vector<bool> given(names.size(), false);
  for (const auto &[name, dim] : dims) {
    const auto [argument, path] = llvm::StringRef(name).split('.');
    size_t index = llvm::find(names, argument) - names.begin();
    if (index == names.size())
      return makeError(ExitCode::Usage,
                       fmt::format("--batch-dim: expected an argument of {} ({}), got {}",
                                   signature.method, llvm::join(names, ", "), name),
                       didYouMean(argument.str(), names));
    InputSpec &input = signature.inputs[index];
    if (dim && holdsNoTensor(input.type))
      return failf(ExitCode::Usage,
                   "--batch-dim: {}: expected an argument with tensors, got type {}", name,
                   input.type);
    if (llvm::StringRef(name).find('.') == llvm::StringRef::npos) {
      input.batchDim = dim;
      input.givenWhole = !dim;
      given[index] = true;
      continue;
    }
    if (path.empty() || input.type == "Tensor" || input.type == "Optional[Tensor]")
      return failf(ExitCode::Usage,
                   "--batch-dim: {}: expected a part of a dict, tuple or list, got a path into {}, "
                   "which has type {}",
                   name, input.name, input.type);
    llvm::erase_if(input.parts, [&](const PartDim &part) { return part.path == path; });
    const auto place =
        llvm::find_if(input.parts, [&](const PartDim &part) { return part.path > path; });
    input.parts.insert(place, {path.str(), dim});
  }
  return given;
}

} // namespace pipec
