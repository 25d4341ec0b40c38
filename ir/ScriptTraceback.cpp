#include "ir/ScriptTraceback.h"

#include "ir/support/Llvm.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

#include <optional>
#include <vector>

namespace pipec {

namespace {

constexpr llvm::StringLiteral kTraceback = "Traceback of TorchScript";
constexpr llvm::StringLiteral kOriginal = "Traceback of TorchScript, original code";
constexpr llvm::StringLiteral kHere = "<--- HERE\n";

struct Frame {
  llvm::StringRef path, number, function;
};

/// `/home/me/net.py(12): forward`, a line of the Python stack that a traced operator has in place
/// of its source.
std::optional<Frame> tracedFrame(llvm::StringRef line) {
  auto [place, function] = line.rsplit("): ");
  auto [path, number] = place.rsplit('(');
  if (path.empty() || path[0] == ' ' || function.empty() || number.empty() ||
      number.find_first_not_of("0123456789") != llvm::StringRef::npos)
    return std::nullopt;
  return Frame{path, number, function};
}

/// `  File "/home/me/net.py", line 12, in forward`.
std::optional<Frame> scriptedFrame(llvm::StringRef line) {
  if (!line.consume_front("  File \""))
    return std::nullopt;
  auto [path, rest] = line.split("\", line ");
  auto [number, function] = rest.split(", in ");
  return Frame{path, number, function};
}

/// "at net.py:12 in forward".
std::string textOfFrame(const Frame &where) {
  auto [path, number, function] = where;
  // Models are saved on other machines: the folder does not help, and the name is enough to find
  // the file.
  std::string frame = fmt::format(
      "at {}:{}", path.rsplit('/').second.empty() ? path.str() : path.rsplit('/').second.str(),
      number.str());
  // Functions of our own around a piece of the model mean nothing to its author.
  if (!function.empty() && !startsWith(function, "pipec_"))
    frame += " in " + function.str();
  return frame;
}

std::vector<std::string> framesOf(llvm::StringRef traceback) {
  std::vector<std::string> frames;
  llvm::SmallVector<llvm::StringRef, 64> lines;
  traceback.split(lines, '\n');
  bool inStack = false; // of Python, innermost call first, with PyTorch's own calls outside
  for (llvm::StringRef line : lines) {
    std::optional<Frame> traced = tracedFrame(line);
    if (traced && !inStack)
      frames.push_back(textOfFrame(*traced));
    inStack = traced.has_value();
    if (std::optional<Frame> scripted = scriptedFrame(line))
      frames.push_back(textOfFrame(*scripted));
  }
  return frames;
}

/// The text after the last traceback and its indented code lines. The traceback of a graph without
/// source has only a heading.
llvm::StringRef reasonOf(llvm::StringRef message) {
  size_t heading = message.rfind(kTraceback);
  if (heading == llvm::StringRef::npos)
    return "";
  llvm::StringRef rest = message.drop_front(heading).split('\n').second;
  if (size_t mark = rest.rfind(kHere); mark != llvm::StringRef::npos)
    rest = rest.drop_front(mark + kHere.size());
  while (!rest.empty() && (rest[0] == ' ' || rest[0] == '\t' || rest[0] == '\n' ||
                           tracedFrame(rest.split('\n').first)))
    rest = rest.split('\n').second;
  return rest.rtrim();
}

} // namespace

std::string reasonFirst(llvm::StringRef message) {
  constexpr size_t kOutermost = 3, kInnermost = 6;
  llvm::StringRef reason = reasonOf(message);
  if (reason.empty())
    return message.str();
  reason.consume_front("builtins."); // where Python keeps its own errors
  std::string text = reason.str();
  size_t original = message.find(kOriginal);
  if (original == llvm::StringRef::npos)
    return text;
  std::vector<std::string> frames = framesOf(message.drop_front(original));
  size_t left =
      frames.size() > kOutermost + kInnermost + 1 ? frames.size() - kOutermost - kInnermost : 0;
  for (size_t i = 0; i < frames.size(); ++i) {
    if (left && i >= kOutermost && i < kOutermost + left) {
      if (i == kOutermost)
        text += fmt::format("\n  ... {} more calls", left);
      continue;
    }
    text += "\n  " + frames[i];
  }
  return text;
}

bool isPythonStack(llvm::StringRef text) { return tracedFrame(text.split('\n').first).has_value(); }

} // namespace pipec
