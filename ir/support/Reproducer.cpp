#include "ir/support/Reproducer.h"

#include "ir/support/Version.h"
#include "ir/support/WriteFile.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <unistd.h>

namespace pipec {

namespace {

constexpr int kMostReproducers = 1000;
constexpr llvm::StringLiteral kNone = "no reproducer: ";
constexpr llvm::StringLiteral kReport =
    "this is an error in pipec, not in the model; please report it with ";

llvm::Error cannotWrite(const std::string &path, std::error_code code) {
  return failf(ExitCode::IO, "{}: cannot write: {}", path, llvm::StringRef(code.message()).lower());
}

llvm::Error isEnding() { return makeError(ExitCode::Other, "the process is ending"); }

} // namespace

llvm::Expected<Reproducer> Reproducer::begin(const std::string &parent) {
  Reproducer made;
  made.parent_ = parent;
  if (std::error_code code =
          made.temporary_.make(fmt::format("{}/.pipec-reproducer.tmp-{}", parent, ::getpid())))
    return code == std::errc::operation_canceled ? isEnding() : cannotWrite(parent, code);
  return made;
}

llvm::Error Reproducer::write(const std::string &name, const std::string &text) {
  const std::string path = directory() + "/" + name;
  if (std::error_code code = makeDirectories(llvm::sys::path::parent_path(path).str()))
    return code == std::errc::operation_canceled ? isEnding() : cannotWrite(name, code);
  std::error_code code = writeFile(path, text);
  return code ? cannotWrite(name, code) : llvm::Error::success();
}

llvm::Expected<std::string> Reproducer::publish() {
  std::lock_guard lock(unfinishedOutputs().mutex);
  if (!temporary_.isOpen())
    return isEnding();
  std::string name;
  std::error_code code = std::make_error_code(std::errc::file_exists);
  for (int i = 1; i <= kMostReproducers && code == std::errc::file_exists; ++i) {
    name = fmt::format("{}/pipec-reproducer-{}", parent_, i);
    code = llvm::sys::fs::create_directory(name, /*IgnoreExisting=*/false);
  }
  if (!code) // a directory takes the place of an empty one in one step
    code = llvm::sys::fs::rename(directory(), name);
  if (code)
    return cannotWrite(name, code);
  temporary_.release();
  return name;
}

std::string shellText(const std::vector<std::string> &command) {
  auto quoted = [](const std::string &word) {
    bool plain = !word.empty() && llvm::all_of(word, [](char c) {
      return llvm::isAlnum(c) || llvm::StringRef("-_./=,:@%+").contains(c);
    });
    if (plain)
      return word;
    std::string text = "'";
    for (char c : word)
      text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return text + "'";
  };
  std::vector<std::string> words;
  for (const std::string &word : command)
    words.push_back(quoted(word));
  return llvm::join(words, " ");
}

std::string reproducerReadme(const ErrorText &error, const std::vector<std::string> &command,
                             const std::string &about) {
  return fmt::format("An internal error of pipec. Please report it with this directory; it holds "
                     "no weights, unless {} is in it.\n\nerror: {}\n\npipec {}, LibTorch {}\n{}{}",
                     kModelFile.str(), error.message, pipecVersion(), torchVersion(),
                     command.empty() ? "" : "command " + shellText(command) + "\n", about);
}

ErrorText withReproducer(ErrorText error, llvm::Expected<std::string> made) {
  const bool holdsModel = made && llvm::sys::fs::exists(*made + "/" + kModelFile);
  std::string help = made ? kReport.str() + *made +
                                (holdsModel ? ", which holds the model and its weights"
                                            : ", which holds no weights")
                          : kNone.str() + describe(made.takeError()).message;
  error.help += (error.help.empty() ? "" : "; ") + help;
  return error;
}

bool mentionsReproducer(const ErrorText &error) {
  llvm::StringRef help = error.help;
  return help.contains(kNone) || help.contains(kReport);
}

} // namespace pipec
