// Reads JSON objects strictly and by name. The first error is kept, so a reader needs no check
// behind every field. Hand-made because llvm::json::ObjectMapper ignores unknown keys.
#pragma once

#include "ir/support/Error.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/JSON.h"

#include <limits>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace pipec {

/// The reading state of one document, shared by all its objects.
struct JsonReading {
  bool unknownKeysAreErrors =
      true;          // false: they become warnings (a document of a newer minor version)
  std::string error; // "<path>: <what>"; empty: none so far
  std::vector<std::string> warnings;
  void fail(const std::string &path, const std::string &message);
};

/// One object of the document. Every requested key is known; finish() reports the others. After an
/// error every call returns a default value.
class JsonObject {
public:
  /// Error at `path` if `value` is not an object or is null.
  JsonObject(JsonReading &reading, const llvm::json::Value *value, std::string path);

  bool has(llvm::StringRef key);
  /// The raw value; nullptr and an error if it is missing.
  const llvm::json::Value *value(llvm::StringRef key);
  int64_t integer(llvm::StringRef key, int64_t min = 0,
                  int64_t max = std::numeric_limits<int64_t>::max());
  size_t index(llvm::StringRef key) { return static_cast<size_t>(integer(key)); }
  bool boolean(llvm::StringRef key);
  std::string string(llvm::StringRef key);
  std::vector<std::string> strings(llvm::StringRef key);
  /// null means absent.
  std::optional<int64_t> optionalIndex(llvm::StringRef key);
  std::vector<size_t> indices(llvm::StringRef key);
  std::vector<int64_t> integers(llvm::StringRef key, int64_t min = 0);
  JsonObject object(llvm::StringRef key);
  /// Calls `each` with every element of an array and its path.
  void list(llvm::StringRef key,
            llvm::function_ref<void(const llvm::json::Value &, const std::string &)> each);
  /// The same for an array of objects, each finished afterwards.
  void objects(llvm::StringRef key, llvm::function_ref<void(JsonObject &)> each);
  /// Parses a string with `parse`, whose error becomes an error of this document.
  template <typename T>
  T parsed(llvm::StringRef key, llvm::function_ref<llvm::Expected<T>(llvm::StringRef)> parse) {
    llvm::Expected<T> result = parse(string(key));
    if (result)
      return std::move(*result);
    fail(key, describe(result.takeError()).message);
    return T();
  }

  /// The same for an array of strings.
  template <typename T>
  std::vector<T> parsedList(llvm::StringRef key,
                            llvm::function_ref<llvm::Expected<T>(llvm::StringRef)> parse) {
    std::vector<T> result;
    for (const std::string &text : strings(key)) {
      llvm::Expected<T> one = parse(text);
      if (one)
        result.push_back(std::move(*one));
      else
        fail(key, describe(one.takeError()).message);
    }
    return result;
  }

  void fail(llvm::StringRef key, const std::string &message);
  std::string pathOf(llvm::StringRef key) const;
  JsonReading &reading() { return reading_; }
  const std::string &path() const { return path_; }
  /// Every key that was not requested is an error or a warning.
  void finish();

private:
  JsonReading &reading_;
  const llvm::json::Object *object_ = nullptr;
  std::string path_;
  std::set<std::string> known_;
};

} // namespace pipec
