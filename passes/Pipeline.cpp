#include "passes/Pipeline.h"

#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

namespace pipec {
namespace {

/// Recursive descent over: steps = step ("," step)*, step = name ["{" option ("," option)* "}"] |
/// "fixpoint" "(" steps ")".
class PipelineParser {
public:
  explicit PipelineParser(llvm::StringRef text) : text_(text) {}

  llvm::Expected<std::vector<PipelineStep>> parse() {
    std::vector<PipelineStep> steps;
    blanks();
    if (text_.drop_front(at_).empty())
      return steps;
    if (llvm::Error error = parseSteps(steps, 0))
      return error;
    if (at_ < text_.size())
      return wrong(fmt::format("expected a comma, got {}", text_[at_]));
    return steps;
  }

private:
  static constexpr int kMaxDepth = 8;

  llvm::Error wrong(const std::string &message) const {
    return makeError(ExitCode::Usage, fmt::format("pipeline, character {}: {}", at_ + 1, message),
                     "a pipeline looks like a,b{option=1},fixpoint(c,d)");
  }

  /// Also skips line ends and comments: a pipeline may describe the steps between its passes.
  void blanks() {
    for (; at_ < text_.size(); ++at_) {
      if (text_[at_] == '#')
        at_ = std::min(text_.find('\n', at_), text_.size() - 1);
      else if (!llvm::isSpace(text_[at_]))
        return;
    }
  }

  bool take(char c) {
    blanks();
    if (at_ >= text_.size() || text_[at_] != c)
      return false;
    ++at_;
    blanks();
    return true;
  }

  llvm::StringRef takeUntil(llvm::StringRef stops) {
    const llvm::StringRef rest = text_.drop_front(at_);
    const llvm::StringRef taken = rest.take_until([&](char c) { return stops.contains(c); });
    at_ += taken.size();
    return taken.trim();
  }

  llvm::StringRef takeName() {
    const llvm::StringRef name = takeUntil(",{}()# \t\n");
    blanks();
    return name;
  }

  llvm::Error parseSteps(std::vector<PipelineStep> &steps, int depth) {
    do {
      PipelineStep step;
      step.name = takeName().str();
      if (step.name.empty())
        return wrong("expected the name of a pass");
      if (take('{'))
        if (llvm::Error error = parseOptions(step))
          return error;
      if (step.isGroup()) {
        if (!take('('))
          return wrong("expected ( after fixpoint");
        if (depth >= kMaxDepth)
          return wrong("groups are nested too deep");
        if (llvm::Error error = parseSteps(step.body, depth + 1))
          return error;
        if (!take(')'))
          return wrong("expected ) at the end of fixpoint");
      }
      steps.push_back(std::move(step));
    } while (take(','));
    return llvm::Error::success();
  }

  /// Values may have brackets of their own: at=[a,b].
  llvm::Error parseOptions(PipelineStep &step) {
    do {
      const std::string name = takeUntil("=,}").str();
      if (name.empty())
        return wrong("expected the name of an option");
      std::string value;
      if (take('=')) {
        if (at_ < text_.size() && text_[at_] == '[') {
          value = takeUntil("]").str() + "]";
          if (!take(']'))
            return wrong("expected ] at the end of the option's value");
        } else {
          value = takeUntil(",}").str();
        }
      }
      if (!step.options.emplace(name, value).second)
        return wrong(fmt::format("option {} appears twice", name));
    } while (take(','));
    if (!take('}'))
      return wrong("expected } at the end of the options");
    return llvm::Error::success();
  }

  llvm::StringRef text_;
  size_t at_ = 0;
};

} // namespace

llvm::Expected<std::vector<PipelineStep>> parsePipeline(llvm::StringRef text) {
  return PipelineParser(text).parse();
}

std::string pipelineText(const PipelineStep &step) {
  std::string out = step.name;
  std::vector<std::string> options;
  for (const auto &[name, value] : step.options)
    options.push_back(value.empty() ? name : name + "=" + value);
  if (!options.empty())
    out += "{" + llvm::join(options, ",") + "}";
  if (step.isGroup())
    out += "(" + pipelineText(step.body) + ")";
  return out;
}

std::string pipelineText(const std::vector<PipelineStep> &steps) {
  std::vector<std::string> parts;
  for (const PipelineStep &step : steps)
    parts.push_back(pipelineText(step));
  return llvm::join(parts, ",");
}

} // namespace pipec
