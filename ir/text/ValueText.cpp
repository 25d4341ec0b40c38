#include "ir/text/ValueText.h"

#include "ir/Refusals.h"
#include "ir/support/Json.h"
#include "ir/support/Llvm.h"
#include "ir/support/Try.h"
#include "ir/text/TensorText.h"

#include <ATen/core/Dict.h>
#include <ATen/core/List.h>
#include <ATen/core/jit_type.h>
#include <ATen/ops/empty_strided.h>

#include <cmath>
#include <limits>

namespace pipec {
namespace {

namespace json = llvm::json;

constexpr size_t kMaxTensorBytes = 256;

json::Value stringToJson(const std::string &text) {
  if (json::isUTF8(text))
    return text;
  return json::Object{{"hex", hexText(text)}};
}

llvm::Expected<json::Value> tensorToJson(const at::Tensor &tensor) {
  if (!tensor.defined())
    return nullptr;
  if (tensor.layout() != at::kStrided || tensor.nbytes() > kMaxTensorBytes)
    return refuseWith(Refusal::NoTextForm, "a tensor constant " + tensorHeadText(tensor));
  json::Array strides;
  for (const int64_t stride : tensor.strides())
    strides.push_back(stride);
  return json::Object{{"tensor", tensorHeadText(tensor)},
                      {"strides", std::move(strides)},
                      {"bytes", hexText(elementBytes(tensor))}};
}

template <typename Elements>
llvm::Expected<json::Value> elementsToJson(const Elements &elements, TensorWriter tensors) {
  json::Array array;
  for (const c10::IValue &element : elements) {
    json::Value part = TRY(valueToJson(element, tensors));
    array.push_back(std::move(part));
  }
  return json::Value(std::move(array));
}

llvm::Expected<json::Value> dictToJson(const c10::IValue &value, TensorWriter tensors) {
  json::Array pairs;
  for (const auto &entry : value.toGenericDict()) {
    json::Value pair =
        TRY(elementsToJson(std::vector<c10::IValue>{entry.key(), entry.value()}, tensors));
    pairs.push_back(std::move(pair));
  }
  return json::Value(std::move(pairs));
}

llvm::Error mismatch(const json::Value &value, const c10::TypePtr &type) {
  return failf(ExitCode::Unreadable, "expected a value of type {}, got {}", type->annotation_str(),
               jsonText(value));
}

std::optional<double> floatFromJson(const json::Value &value) {
  if (const auto number = value.getAsNumber())
    return *number;
  const auto text = value.getAsString();
  if (!text)
    return std::nullopt;
  if (*text == "inf" || *text == "-inf")
    return std::copysign(std::numeric_limits<double>::infinity(), *text == "inf" ? 1.0 : -1.0);
  if (*text == "nan")
    return std::numeric_limits<double>::quiet_NaN();
  double number = 0;
  if (text->getAsDouble(number))
    return std::nullopt;
  return number;
}

llvm::Expected<at::Tensor> tensorFromJson(const json::Value &value) {
  const json::Object *object = value.getAsObject();
  const auto head = object ? object->getString("tensor") : LlvmOptional<llvm::StringRef>();
  const auto bytes = object ? object->getString("bytes") : LlvmOptional<llvm::StringRef>();
  const json::Array *strides = object ? object->getArray("strides") : nullptr;
  const std::optional<std::string> data = bytes ? parseHex(*bytes) : std::nullopt;
  if (!head || !strides || !data)
    return mismatch(value, c10::TensorType::get());
  TensorHead parsed = TRY(tensorHeadFromText(*head));
  std::vector<int64_t> steps;
  for (const json::Value &stride : *strides)
    steps.push_back(valueOr(stride.getAsInteger(), -1));
  if (steps.size() != parsed.sizes.size() || llvm::any_of(steps, [](int64_t s) { return s < 0; }))
    return mismatch(value, c10::TensorType::get());
  at::Tensor tensor = at::empty_strided(parsed.sizes, steps, at::TensorOptions(parsed.dtype));
  TRY(setElements(tensor, *data));
  return tensor;
}

llvm::Expected<c10::IValue> listFromJson(const json::Value &value, const c10::TypePtr &type,
                                         TensorReader tensors) {
  const json::Array *array = value.getAsArray();
  if (!array)
    return mismatch(value, type);
  const c10::TypePtr element = type->expectRef<c10::ListType>().getElementType();
  c10::impl::GenericList list(element);
  for (const json::Value &part : *array) {
    c10::IValue item = TRY(valueFromJson(part, element, tensors));
    list.push_back(item);
  }
  return c10::IValue(list);
}

llvm::Expected<c10::IValue> tupleFromJson(const json::Value &value, const c10::TypePtr &type,
                                          TensorReader tensors) {
  const json::Array *array = value.getAsArray();
  const at::ArrayRef<c10::TypePtr> elements = type->containedTypes();
  if (!array || array->size() != elements.size())
    return mismatch(value, type);
  std::vector<c10::IValue> items;
  for (size_t i = 0; i < elements.size(); ++i) {
    c10::IValue item = TRY(valueFromJson((*array)[i], elements[i], tensors));
    items.push_back(item);
  }
  return c10::IValue(c10::ivalue::Tuple::create(std::move(items)));
}

llvm::Expected<c10::IValue> dictFromJson(const json::Value &value, const c10::TypePtr &type,
                                         TensorReader tensors) {
  const json::Array *array = value.getAsArray();
  if (!array)
    return mismatch(value, type);
  const auto &dictType = type->expectRef<c10::DictType>();
  c10::impl::GenericDict dict(dictType.getKeyType(), dictType.getValueType());
  for (const json::Value &pair : *array) {
    const json::Array *parts = pair.getAsArray();
    if (!parts || parts->size() != 2)
      return mismatch(value, type);
    c10::IValue key = TRY(valueFromJson((*parts)[0], dictType.getKeyType(), tensors));
    c10::IValue item = TRY(valueFromJson((*parts)[1], dictType.getValueType(), tensors));
    dict.insert(key, item);
  }
  return c10::IValue(dict);
}

llvm::Expected<c10::IValue> complexFromJson(const json::Value &value, const c10::TypePtr &type) {
  const json::Array *parts = value.getAsArray();
  if (!parts || parts->size() != 2)
    return mismatch(value, type);
  const std::optional<double> real = floatFromJson((*parts)[0]),
                              imaginary = floatFromJson((*parts)[1]);
  if (!real || !imaginary)
    return mismatch(value, type);
  return c10::IValue(c10::complex<double>(*real, *imaginary));
}

llvm::Expected<c10::IValue> stringFromJson(const json::Value &value, const c10::TypePtr &type) {
  if (const auto text = value.getAsString())
    return c10::IValue(text->str());
  const json::Object *object = value.getAsObject();
  const auto hex = object ? object->getString("hex") : LlvmOptional<llvm::StringRef>();
  const std::optional<std::string> bytes = hex ? parseHex(*hex) : std::nullopt;
  if (!bytes)
    return mismatch(value, type);
  return c10::IValue(*bytes);
}

} // namespace

std::string floatText(double value) {
  if (std::isnan(value))
    return "nan";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".en") == std::string::npos) // "n": inf
    text += ".0";
  return text;
}

llvm::Expected<json::Value> valueToJson(const c10::IValue &value) {
  return valueToJson(value, tensorToJson);
}

llvm::Expected<json::Value> valueToJson(const c10::IValue &value, TensorWriter tensors) {
  if (value.isNone())
    return nullptr;
  if (value.isBool())
    return value.toBool();
  if (value.isInt())
    return value.toInt();
  if (value.isDouble())
    return floatText(value.toDouble());
  if (value.isComplexDouble())
    return json::Array{floatText(value.toComplexDouble().real()),
                       floatText(value.toComplexDouble().imag())};
  if (value.isString())
    return stringToJson(value.toStringRef());
  if (value.isDevice())
    return value.toDevice().str();
  if (value.isTensor())
    return tensors(value.toTensor());
  if (value.isList())
    return elementsToJson(value.toListRef(), tensors);
  if (value.isTuple())
    return elementsToJson(value.toTupleRef().elements(), tensors);
  if (value.isGenericDict())
    return dictToJson(value, tensors);
  return refuseWith(Refusal::NoTextForm, "a value of type " + value.type()->annotation_str());
}

llvm::Expected<c10::IValue> valueFromJson(const json::Value &value, const c10::TypePtr &type) {
  return valueFromJson(value, type, tensorFromJson);
}

llvm::Expected<c10::IValue> valueFromJson(const json::Value &value, const c10::TypePtr &type,
                                          TensorReader tensors) {
  using Kind = c10::TypeKind;
  const Kind kind = type->kind();
  if (kind == Kind::OptionalType)
    return value.kind() == json::Value::Null
               ? llvm::Expected<c10::IValue>(c10::IValue())
               : valueFromJson(value, type->expectRef<c10::OptionalType>().getElementType(),
                               tensors);
  if (kind == Kind::NoneType && value.kind() == json::Value::Null)
    return c10::IValue();
  if (kind == Kind::BoolType && value.getAsBoolean())
    return c10::IValue(*value.getAsBoolean());
  if (kind == Kind::IntType && value.getAsInteger())
    return c10::IValue(*value.getAsInteger());
  if (kind == Kind::FloatType)
    if (const std::optional<double> number = floatFromJson(value))
      return c10::IValue(*number);
  if (kind == Kind::ComplexType)
    return complexFromJson(value, type);
  if (kind == Kind::StringType)
    return stringFromJson(value, type);
  if (kind == Kind::DeviceObjType && value.getAsString())
    return c10::IValue(c10::Device(value.getAsString()->str()));
  if (kind == Kind::TensorType) {
    at::Tensor tensor = TRY(tensors(value));
    return c10::IValue(tensor);
  }
  if (kind == Kind::ListType)
    return listFromJson(value, type, tensors);
  if (kind == Kind::TupleType)
    return tupleFromJson(value, type, tensors);
  if (kind == Kind::DictType)
    return dictFromJson(value, type, tensors);
  return mismatch(value, type);
}

} // namespace pipec
