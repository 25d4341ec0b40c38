#include "ir/artifact/Manifest.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace pipec {

bool isArtifactFileName(llvm::StringRef name) {
  return !name.empty() && name.size() <= 255 && name != "." && name != ".." &&
         name != kManifestName && llvm::none_of(name, [](unsigned char c) {
           return c < 0x20 || c == 0x7f || c == '/' || c == '\\';
         });
}

std::string toString(const Manifest &manifest) {
  std::string text;
  for (const auto &[name, digest] : manifest)
    text += digest + "  " + name + "\n";
  return text;
}

llvm::Expected<Manifest> manifestFromText(llvm::StringRef text) {
  auto bad = [](size_t line, const std::string &what) {
    return failf(ExitCode::BadArtifact, "{}: line {}: {}", kManifestName, line, what);
  };
  if (text.empty())
    return failf(ExitCode::BadArtifact, "{}: expected at least one line, got an empty file",
                 kManifestName);
  Manifest manifest;
  std::string previous;
  for (size_t line = 1; !text.empty(); ++line) {
    size_t end = text.find('\n');
    if (end == llvm::StringRef::npos)
      return bad(line, "ends without a new line: the file is cut off");
    llvm::StringRef row = text.take_front(end);
    text = text.drop_front(end + 1);
    llvm::StringRef digest = row.take_front(64);
    bool hex = digest.size() == 64 &&
               digest.find_first_not_of("0123456789abcdef") == llvm::StringRef::npos;
    if (!hex || row.substr(64, 2) != "  ")
      return bad(line, "expected 64 lower-case hex digits, two spaces and a file name");
    llvm::StringRef name = row.drop_front(66);
    if (!isArtifactFileName(name))
      return bad(line, "expected a file name without a path, got \"" +
                           llvm::StringRef(name).take_front(80).str() + "\"");
    if (line > 1 && name <= previous)
      return bad(line, name == previous ? "file " + name.str() + " is listed twice"
                                        : "names are not in ascending order");
    previous = name.str();
    manifest.emplace(name.str(), digest.str());
  }
  return manifest;
}

} // namespace pipec
