#include "ir/support/JsonReader.h"

#include "ir/support/Json.h"
#include "ir/support/Llvm.h"
#include "ir/support/ShownText.h"

namespace pipec {
namespace {

/// A value as an error message shows it.
std::string shownValue(const llvm::json::Value &value) {
  switch (value.kind()) {
  case llvm::json::Value::Object:
    return "an object";
  case llvm::json::Value::Array:
    return "an array";
  case llvm::json::Value::Null:
  case llvm::json::Value::Boolean:
  case llvm::json::Value::Number:
  case llvm::json::Value::String:
    break;
  }
  std::string text = jsonText(value);
  return text.size() <= 60 ? text : text.substr(0, 57) + "...";
}

} // namespace

void JsonReading::fail(const std::string &path, const std::string &message) {
  if (error.empty())
    error = (path.empty() ? "top level" : path) + ": " + message;
}

JsonObject::JsonObject(JsonReading &reading, const llvm::json::Value *value, std::string path)
    : reading_(reading), object_(value ? value->getAsObject() : nullptr), path_(std::move(path)) {
  if (value && !object_)
    reading_.fail(path_, "expected an object, got " + shownValue(*value));
}

std::string JsonObject::pathOf(llvm::StringRef key) const {
  return path_.empty() ? key.str() : path_ + "." + key.str();
}

void JsonObject::fail(llvm::StringRef key, const std::string &message) {
  reading_.fail(pathOf(key), message);
}

bool JsonObject::has(llvm::StringRef key) {
  known_.insert(key.str());
  return object_ && object_->get(key);
}

const llvm::json::Value *JsonObject::value(llvm::StringRef key) {
  known_.insert(key.str());
  if (!object_)
    return nullptr;
  const llvm::json::Value *found = object_->get(key);
  if (!found)
    reading_.fail(path_, "missing key \"" + key.str() + "\"");
  return found;
}

int64_t JsonObject::integer(llvm::StringRef key, int64_t min, int64_t max) {
  const llvm::json::Value *found = value(key);
  if (!found)
    return min;
  const auto number = found->getAsInteger();
  if (!number)
    fail(key, "expected an integer, got " + shownValue(*found));
  else if (*number < min || *number > max)
    fail(key, fmt::format("expected a number from {} to {}, got {}", min, max, *number));
  else
    return *number;
  return min;
}

bool JsonObject::boolean(llvm::StringRef key) {
  const llvm::json::Value *found = value(key);
  if (found && !found->getAsBoolean())
    fail(key, "expected true or false, got " + shownValue(*found));
  return found && valueOr(found->getAsBoolean(), false);
}

std::string JsonObject::string(llvm::StringRef key) {
  const llvm::json::Value *found = value(key);
  if (found && !found->getAsString())
    fail(key, "expected a string, got " + shownValue(*found));
  return found ? valueOr(found->getAsString(), "").str() : "";
}

std::optional<int64_t> JsonObject::optionalIndex(llvm::StringRef key) {
  const llvm::json::Value *found = value(key);
  if (!found || found->getAsNull())
    return std::nullopt;
  return integer(key);
}

void JsonObject::list(
    llvm::StringRef key,
    llvm::function_ref<void(const llvm::json::Value &, const std::string &)> each) {
  const llvm::json::Value *found = value(key);
  if (!found)
    return;
  const llvm::json::Array *array = found->getAsArray();
  if (!array)
    return fail(key, "expected an array, got " + shownValue(*found));
  for (size_t i = 0; i < array->size() && reading_.error.empty(); ++i)
    each((*array)[i], fmt::format("{}[{}]", pathOf(key), i));
}

std::vector<std::string> JsonObject::strings(llvm::StringRef key) {
  std::vector<std::string> result;
  list(key, [&](const llvm::json::Value &element, const std::string &path) {
    if (const auto text = element.getAsString())
      result.push_back(text->str());
    else
      reading_.fail(path, "expected a string, got " + shownValue(element));
  });
  return result;
}

std::vector<int64_t> JsonObject::integers(llvm::StringRef key, int64_t min) {
  std::vector<int64_t> result;
  list(key, [&](const llvm::json::Value &element, const std::string &path) {
    const auto number = element.getAsInteger();
    if (number && *number >= min)
      result.push_back(*number);
    else
      reading_.fail(path, fmt::format("expected an integer of at least {}, got {}", min,
                                      shownValue(element)));
  });
  return result;
}

std::vector<size_t> JsonObject::indices(llvm::StringRef key) {
  std::vector<int64_t> numbers = integers(key);
  return {numbers.begin(), numbers.end()};
}

JsonObject JsonObject::object(llvm::StringRef key) {
  return JsonObject(reading_, value(key), pathOf(key));
}

void JsonObject::objects(llvm::StringRef key, llvm::function_ref<void(JsonObject &)> each) {
  list(key, [&](const llvm::json::Value &element, const std::string &path) {
    JsonObject object(reading_, &element, path);
    each(object);
    object.finish();
  });
}

void JsonObject::finish() {
  if (!object_ || !reading_.error.empty())
    return;
  std::set<std::string> unknown; // sorted: the same document gives the same first error
  for (const auto &member : *object_)
    if (!known_.count(member.first.str()))
      unknown.insert(member.first.str());
  for (const std::string &key : unknown) {
    std::string message =
        (path_.empty() ? "top level" : path_) + ": unknown key \"" + shown(key) + "\"";
    if (reading_.unknownKeysAreErrors)
      return reading_.fail(path_, "unknown key \"" + shown(key) + "\"");
    reading_.warnings.push_back(message);
  }
}

} // namespace pipec
