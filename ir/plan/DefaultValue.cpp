#include "ir/plan/DefaultValue.h"

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
  if (!digits.startswith("0x") || text.getAsDouble(number) || !std::isfinite(number))
    return std::nullopt;
  return number;
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
      if (llvm::Error error = checkDefault(element))
        return error;
    return llvm::Error::success();
  }
  bool number = value.kind() == llvm::json::Value::Number;
  if (value.getAsObject() ? floatFromDefault(value).has_value() : !number || value.getAsInteger())
    return llvm::Error::success();
  return failf(
      ExitCode::BadArtifact,
      "expected null, a bool, an integer, a string, {{\"float\": \"0x1p-1\"}}, or a list or "
      "{{\"tuple\": [...]}} of these");
}

} // namespace pipec
