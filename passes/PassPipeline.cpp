#include "passes/PassPipeline.h"

#include "ir/support/Try.h"
#include "llvm/ADT/StringExtras.h"
#include "passes/Pass.h"
#include "passes/Registry.h"

#include <fmt/format.h>

namespace pipec {
namespace {

/// A step as it is written.
struct WrittenStep {
  std::string name;
  OptionTexts options;
  std::vector<WrittenStep> body;
  bool isGroup() const { return PipelineStep(name.c_str()).isGroup(); }
};

/// Recursive descent over: steps = step ("," step)*, step = name ["{" option ("," option)* "}"] |
/// "fixpoint" "(" steps ")".
class PipelineParser {
public:
  explicit PipelineParser(llvm::StringRef text) : text_(text) {}

  llvm::Expected<std::vector<WrittenStep>> parse() {
    std::vector<WrittenStep> steps;
    blanks();
    if (text_.drop_front(at_).empty())
      return steps;
    TRY(parseSteps(steps, 0));
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

  llvm::Error parseSteps(std::vector<WrittenStep> &steps, int depth) {
    do {
      WrittenStep step;
      step.name = takeName().str();
      if (step.name.empty())
        return wrong("expected the name of a pass");
      if (take('{'))
        TRY(parseOptions(step));
      if (step.isGroup()) {
        if (!take('('))
          return wrong("expected ( after fixpoint");
        if (depth >= kMaxDepth)
          return wrong("groups are nested too deep");
        TRY(parseSteps(step.body, depth + 1));
        if (!take(')'))
          return wrong("expected ) at the end of fixpoint");
      }
      steps.push_back(std::move(step));
    } while (take(','));
    return llvm::Error::success();
  }

  llvm::Error parseOptions(WrittenStep &step) {
    do {
      const std::string name = takeUntil("=,}").str();
      if (name.empty())
        return wrong("expected the name of an option");
      std::string value;
      if (take('='))
        value = takeUntil(",}").str();
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

llvm::Expected<PassPipeline> readSteps(const std::vector<WrittenStep> &written,
                                       llvm::ArrayRef<PassInfo> registry);

llvm::Expected<PipelineStep> readStep(const WrittenStep &written,
                                      llvm::ArrayRef<PassInfo> registry) {
  PipelineStep step(written.name.c_str());
  if (written.isGroup()) {
    if (!written.options.empty())
      return makeError(ExitCode::Usage, "fixpoint takes no options");
    step.body = TRY(readSteps(written.body, registry));
    return step;
  }
  std::string nearest;
  const PassInfo *info = findPass(registry, written.name, &nearest);
  if (!info)
    return makeError(ExitCode::Usage, "there is no pass " + written.name,
                     nearest.empty() ? "pipe-opt --list-passes names them"
                                     : "did you mean " + nearest + "?");
  llvm::Expected<std::shared_ptr<const StepOptions>> options =
      info->options.parseOptions(written.options);
  if (!options)
    return withContext(options.takeError(), "pass " + written.name);
  step.options = std::move(*options);
  return step;
}

llvm::Expected<PassPipeline> readSteps(const std::vector<WrittenStep> &written,
                                       llvm::ArrayRef<PassInfo> registry) {
  PassPipeline steps;
  for (const WrittenStep &one : written) {
    PipelineStep step = TRY(readStep(one, registry));
    steps.push_back(std::move(step));
  }
  return steps;
}

} // namespace

PipelineStep fixpoint(PassPipeline body) {
  PipelineStep step("fixpoint");
  step.body = std::move(body);
  return step;
}

llvm::Expected<PassPipeline> parsePipeline(llvm::StringRef text,
                                           llvm::ArrayRef<PassInfo> registry) {
  const std::vector<WrittenStep> written = TRY(PipelineParser(text).parse());
  return readSteps(written, registry);
}

std::string pipelineText(const PipelineStep &step) {
  std::string out = step.name;
  if (const std::string options = step.options ? step.options->text() : ""; !options.empty())
    out += "{" + options + "}";
  if (step.isGroup())
    out += "(" + pipelineText(step.body) + ")";
  return out;
}

std::string pipelineText(const PassPipeline &steps) {
  std::vector<std::string> parts;
  for (const PipelineStep &step : steps)
    parts.push_back(pipelineText(step));
  return llvm::join(parts, ",");
}

} // namespace pipec
