#include "ir/plan/DefaultValue.h"

#include "ir/support/Llvm.h"
#include "ir/support/Try.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <cmath>
#include <limits>

namespace pipec {

llvm::json::Value floatDefault(double value) {
  std::string text = std::isnan(value)   ? "nan"
                     : std::isinf(value) ? (value > 0 ? "inf" : "-inf")
                                         : fmt::format("{:a}", value);
  return llvm::json::Object{{"float", text}};
}

std::optional<double> floatFromDefault(const llvm::json::Value &value) {
  const llvm::json::Object *object = value.getAsObject();
  if (!object || object->size() != 1 || !object->getString("float"))
    return std::nullopt;
  llvm::StringRef text = *object->getString("float");
  if (text == "nan")
    return std::numeric_limits<double>::quiet_NaN();
  if (text == "inf" || text == "-inf")
    return (text == "inf" ? 1 : -1) * std::numeric_limits<double>::infinity();
  double number = 0;
  llvm::StringRef digits = text;
  digits.consume_front("-");
  // Only hex floats: a decimal text would promise an exactness that it may not have.
  if (!startsWith(digits, "0x") || text.getAsDouble(number) || !std::isfinite(number))
    return std::nullopt;
  return number;
}

llvm::json::Value complexDefault(std::complex<double> value) {
  return llvm::json::Object{
      {"complex", llvm::json::Array{floatDefault(value.real()), floatDefault(value.imag())}}};
}

std::optional<std::complex<double>> complexFromDefault(const llvm::json::Value &value) {
  const llvm::json::Object *object = value.getAsObject();
  const llvm::json::Array *parts =
      object && object->size() == 1 ? object->getArray("complex") : nullptr;
  if (!parts || parts->size() != 2)
    return std::nullopt;
  std::optional<double> real = floatFromDefault((*parts)[0]), imag = floatFromDefault((*parts)[1]);
  if (!real || !imag)
    return std::nullopt;
  return std::complex<double>(*real, *imag);
}

llvm::json::Value deviceDefault(std::string device) {
  return llvm::json::Object{{"device", std::move(device)}};
}

std::optional<llvm::StringRef> deviceFromDefault(const llvm::json::Value &value) {
  const llvm::json::Object *object = value.getAsObject();
  if (!object || object->size() != 1 || !object->getString("device"))
    return std::nullopt;
  const llvm::StringRef text = *object->getString("device");
  const auto [kind, index] = text.split(':');
  uint8_t number = 0;
  const bool named = !kind.empty() && llvm::all_of(kind, llvm::isAlpha);
  const bool numbered = !text.contains(':') || !index.getAsInteger(10, number);
  return named && numbered ? std::optional(text) : std::nullopt;
}

llvm::json::Value tupleDefault(llvm::json::Array elements) {
  return llvm::json::Object{{"tuple", std::move(elements)}};
}

const llvm::json::Array *tupleFromDefault(const llvm::json::Value &value) {
  const llvm::json::Object *object = value.getAsObject();
  return object && object->size() == 1 ? object->getArray("tuple") : nullptr;
}

llvm::Error checkDefault(const llvm::json::Value &value) {
  const llvm::json::Array *list = value.getAsArray() ? value.getAsArray() : tupleFromDefault(value);
  if (list) {
    for (const llvm::json::Value &element : *list)
      TRY(checkDefault(element));
    return llvm::Error::success();
  }
  bool number = value.kind() == llvm::json::Value::Number;
  const bool object =
      floatFromDefault(value) || complexFromDefault(value) || deviceFromDefault(value);
  if (value.getAsObject() ? object : !number || value.getAsInteger())
    return llvm::Error::success();
  return failf(
      ExitCode::BadArtifact,
      "expected null, a bool, an integer, a string, {{\"float\": \"0x1p-1\"}}, "
      "{{\"complex\": [...]}}, {{\"device\": \"cpu\"}}, or a list or {{\"tuple\": [...]}} of "
      "these");
}

} // namespace pipec
