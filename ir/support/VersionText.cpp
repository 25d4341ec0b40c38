#include "ir/support/VersionText.h"

#include "ir/support/Json.h"
#include "ir/support/JsonReader.h"
#include "llvm/Support/Regex.h"

namespace pipec {

bool isVersion(llvm::StringRef text) {
  static const llvm::Regex form("^(0|[1-9][0-9]{0,5})(\\.(0|[1-9][0-9]{0,5})){2}"
                                "((a|b|rc)[0-9]{1,9})?(\\.post[0-9]{1,9})?(\\.dev[0-9]{1,9})?"
                                "(\\+[A-Za-z0-9]+([.-][A-Za-z0-9]+)*)?$");
  // Its end of a line would be the end of the text.
  return text.size() <= 100 && !text.contains('\n') && form.match(text);
}

std::string versionFrom(JsonObject &object, llvm::StringRef key) {
  std::string version = object.string(key);
  if (!isVersion(version))
    object.fail(key, "expected a version as 2.11.0, got " + jsonText(version));
  return version;
}

bool isSameRelease(llvm::StringRef version, llvm::StringRef other) {
  return version.split('+').first == other.split('+').first;
}

} // namespace pipec
