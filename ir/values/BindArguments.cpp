#include "ir/values/BindArguments.h"

#include "ir/TorchError.h"
#include "ir/plan/DefaultValue.h"
#include "ir/support/Check.h"
#include "ir/support/Try.h"
#include "ir/values/Elements.h"

#include <ATen/core/Dict.h>
#include <ATen/core/List.h>
#include <ATen/core/jit_type.h>

namespace pipec {

namespace {

std::optional<c10::IValue> convert(const c10::IValue &value, const c10::TypePtr &type);

std::optional<c10::IValue> toList(const c10::IValue &value, const c10::ListType &type) {
  if (!value.isList() && !value.isTuple())
    return std::nullopt;
  c10::impl::GenericList list(type.getElementType());
  for (const c10::IValue &element : elementsIn(value)) {
    auto converted = convert(element, type.getElementType());
    if (!converted)
      return std::nullopt;
    list.push_back(std::move(*converted));
  }
  return list;
}

std::optional<c10::IValue> toTuple(const c10::IValue &value, const c10::TupleTypePtr &type) {
  if (!value.isList() && !value.isTuple())
    return std::nullopt;
  std::vector<c10::IValue> given = elementsIn(value), converted;
  if (given.size() != type->elements().size())
    return std::nullopt;
  for (size_t i = 0; i < given.size(); ++i) {
    auto element = convert(given[i], type->elements()[i]);
    if (!element)
      return std::nullopt;
    converted.push_back(std::move(*element));
  }
  if (type->name())
    return c10::ivalue::Tuple::createNamed(std::move(converted), type);
  return c10::ivalue::Tuple::create(std::move(converted));
}

std::optional<c10::IValue> toDict(const c10::IValue &value, const c10::DictType &type) {
  if (!value.isGenericDict())
    return std::nullopt;
  c10::impl::GenericDict dict(type.getKeyType(), type.getValueType());
  for (const auto &entry : value.toGenericDict()) {
    auto key = convert(entry.key(), type.getKeyType());
    auto content = convert(entry.value(), type.getValueType());
    if (!key || !content)
      return std::nullopt;
    dict.insert(std::move(*key), std::move(*content));
  }
  return dict;
}

std::optional<c10::IValue> toUnion(const c10::IValue &value, const c10::UnionType &type) {
  for (const c10::TypePtr &choice : type.containedTypes())
    if (auto converted = convert(value, choice))
      return converted;
  return std::nullopt;
}

/// The conversions of Python's call of a TorchScript method: exact scalar types, except an int for
/// a declared float.
std::optional<c10::IValue> convert(const c10::IValue &value, const c10::TypePtr &type) {
  if (auto optional = type->cast<c10::OptionalType>())
    return value.isNone() ? std::optional(value) : convert(value, optional->getElementType());
  if (auto list = type->cast<c10::ListType>())
    return toList(value, *list);
  if (auto tuple = type->cast<c10::TupleType>())
    return toTuple(value, tuple);
  if (auto dict = type->cast<c10::DictType>())
    return toDict(value, *dict);
  if (auto choices = type->cast<c10::UnionType>())
    return toUnion(value, *choices);
  if (type->kind() == c10::TypeKind::FloatType && value.isInt())
    return static_cast<double>(value.toInt());
  if (type->kind() == c10::TypeKind::TensorType)
    return value.isTensor() ? std::optional(value) : std::nullopt;
  return value.type()->isSubtypeOf(*type) ? std::optional(value) : std::nullopt;
}

c10::IValue fromJson(const llvm::json::Value &json) {
  if (auto flag = json.getAsBoolean())
    return *flag;
  if (auto integer = json.getAsInteger())
    return *integer;
  if (auto number = floatFromDefault(json)) // written exactly, so that 1 and 1.0 stay apart
    return *number;
  if (auto number = complexFromDefault(json))
    return c10::complex<double>(number->real(), number->imag());
  if (auto text = deviceFromDefault(json)) {
    auto device =
        guardTorch(ExitCode::BadArtifact, "default", [&] { return c10::Device(text->str()); });
    if (device)
      return *device;
    llvm::consumeError(device.takeError()); // nothing is called that: None, which fits no device
    return {};
  }
  if (auto text = json.getAsString())
    return text->str();
  if (const auto *elements = tupleFromDefault(json)) {
    std::vector<c10::IValue> values;
    for (const llvm::json::Value &element : *elements)
      values.push_back(fromJson(element));
    return c10::ivalue::Tuple::create(std::move(values));
  }
  if (const auto *array = json.getAsArray()) {
    c10::impl::GenericList list(c10::AnyType::get());
    for (const llvm::json::Value &element : *array)
      list.push_back(fromJson(element));
    return list;
  }
  return {};
}

std::string kindText(const c10::IValue &value) {
  if (value.isTuple())
    return fmt::format("a tuple of {}", value.toTupleRef().elements().size());
  if (value.isList())
    return fmt::format("a list of {}", value.toListRef().size());
  if (value.isGenericDict())
    return fmt::format("a dict of {}", value.toGenericDict().size());
  return value.tagKind();
}

using Slots = std::vector<std::optional<c10::IValue>>;

llvm::Error placeKeywords(const Signature &signature, const Arguments &arguments, Slots &slots) {
  for (const auto &[name, value] : arguments.keyword) {
    auto input =
        llvm::find_if(signature.inputs, [&](const InputSpec &spec) { return spec.name == name; });
    if (input == signature.inputs.end())
      return failf(ExitCode::Usage, "argument {}: expected one of {}, got an unknown name", name,
                   listArguments(signature.inputs));
    auto &slot = slots[input - signature.inputs.begin()];
    if (slot)
      return failf(ExitCode::Usage, "argument {}: expected one value, got two", name);
    slot = value;
  }
  return llvm::Error::success();
}

} // namespace

std::string listArguments(llvm::ArrayRef<InputSpec> inputs) {
  std::string names;
  for (const InputSpec &input : inputs)
    names += (names.empty() ? "" : ", ") + input.name;
  return names.empty() ? "no arguments" : names;
}

std::optional<c10::IValue> asDeclared(const c10::IValue &value, const c10::TypePtr &type) {
  return convert(value, type);
}

llvm::Expected<std::vector<c10::IValue>> bindArguments(const Signature &signature,
                                                       llvm::ArrayRef<c10::TypePtr> types,
                                                       const Arguments &arguments) {
  PIPEC_ASSERT(types.size() == signature.inputs.size(), "one type per input");
  if (arguments.positional.size() > signature.inputs.size())
    return failf(ExitCode::Usage, "arguments: expected at most {} ({}), got {}",
                 signature.inputs.size(), listArguments(signature.inputs),
                 arguments.positional.size());
  Slots slots(signature.inputs.size());
  llvm::copy(arguments.positional, slots.begin());
  TRY(placeKeywords(signature, arguments, slots));

  std::vector<c10::IValue> values;
  for (size_t i = 0; i < slots.size(); ++i) {
    const InputSpec &input = signature.inputs[i];
    if (!slots[i] && input.defaultValue)
      slots[i] = fromJson(*input.defaultValue);
    if (!slots[i])
      return failf(ExitCode::Usage, "argument {}: expected a value of type {}, got none",
                   input.name, types[i]->annotation_str());
    auto value = convert(*slots[i], types[i]);
    if (!value && types[i]->kind() == c10::TypeKind::NoneType)
      return makeError(ExitCode::Usage,
                       fmt::format("argument {}: expected None, as in the example inputs of the "
                                   "compile, got {}",
                                   input.name, kindText(*slots[i])),
                       fmt::format("compile again with a first example (--inputs) that gives {} a "
                                   "value",
                                   input.name));
    if (!value)
      return failf(ExitCode::Usage, "argument {}: expected {}, got {}", input.name,
                   types[i]->annotation_str(), kindText(*slots[i]));
    values.push_back(std::move(*value));
  }
  return values;
}

} // namespace pipec
