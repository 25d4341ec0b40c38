#include "ir/artifact/ArtifactDifferences.h"

#include "ir/TorchError.h"
#include "ir/artifact/ArtifactReader.h"
#include "ir/artifact/LineDifference.h"
#include "ir/artifact/Relink.h"
#include "ir/support/Try.h"
#include "ir/text/CanonicalText.h"
#include "ir/text/SignatureText.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/ranges.h>

namespace pipec {

namespace {

struct Side {
  Artifact artifact;
  Relinked linked;
};

llvm::Expected<Side> linkedSide(Artifact artifact) {
  llvm::Expected<Relinked> linked = relink(artifact.directory, artifact.plan);
  if (!linked)
    return withContext(linked.takeError(), artifact.directory);
  return Side{std::move(artifact), std::move(*linked)};
}

/// The identity of a channel in both artifacts, and the parts that may differ.
struct ChannelWords {
  std::string value; // the value that it carries
  std::string route; // "stage 0 to stages 1 and 2"
  std::string type;
};

std::vector<ChannelWords> channelsOf(const Side &side) {
  const Plan &plan = side.artifact.plan;
  std::vector<std::string> names = canonicalNames(side.linked.model, side.linked.sent);
  std::vector<ChannelWords> result;
  for (size_t c = 0; c < plan.channels.size(); ++c) {
    const Channel &channel = plan.channels[c];
    std::vector<size_t> to;
    for (const PortRef &port : channel.to)
      to.push_back(port.stage);
    ChannelWords words;
    words.value =
        channel.kind == Channel::Kind::Weight
            ? "weight " + plan.stages[channel.from.stage].attributes[channel.from.port].name
            : names[c];
    words.route = fmt::format("stage {} to {} {}", channel.from.stage,
                              to.size() == 1 ? "stage" : "stages", fmt::join(to, " and "));
    // Weights are compared as such; before 1.4 their channels had no description.
    words.type = channel.kind == Channel::Kind::Weight ? channel.type
                                                       : channel.type + specText(channel.tensor);
    result.push_back(std::move(words));
  }
  return result;
}

class ArtifactComparison {
public:
  ArtifactComparison(const Side &now, const Side &old) : now_(now), old_(old) {}

  ArtifactDifferences run() {
    comparePlans(old_.artifact.plan, now_.artifact.plan, result_.findings);
    compareChannels();
    compareOperators();
    compareWeights();
    if (now_.artifact.scheduleCsv != old_.artifact.scheduleCsv)
      add("schedule", "schedule.csv", "schedule.csv: a different schedule");
    if (result_.findings.empty() && !(withoutVersions(now_) == withoutVersions(old_)))
      add("plan", "plan.json", "plan.json: differs in sizes, estimates or order of entries");
    noteVersions();
    return std::move(result_);
  }

private:
  void add(const char *code, std::string where, std::string message) {
    result_.findings.push_back(differenceFound(code, std::move(where), std::move(message)));
  }

  /// Compares channels by their value. Values are identified by their place in the program. For
  /// different sources, channels with the same route are the same channel.
  void compareChannels() {
    bool sameSource = now_.linked.lines == old_.linked.lines;
    std::vector<ChannelWords> now = channelsOf(now_), old = channelsOf(old_);
    std::vector<bool> matched(old.size(), false);
    auto keyOf = [&](const ChannelWords &words) { return sameSource ? words.value : words.route; };
    for (const ChannelWords &words : now) {
      size_t at = 0;
      while (at < old.size() && (matched[at] || keyOf(old[at]) != keyOf(words)))
        ++at;
      std::string where = fmt::format("channel of {}", words.value);
      if (at == old.size()) {
        add("channel", where, fmt::format("{}, {}, {}: new", where, words.route, words.type));
        continue;
      }
      matched[at] = true;
      if (words.route != old[at].route)
        add("channel", where, where + ": " + changedFrom(words.route, old[at].route));
      if (words.type != old[at].type)
        add("channel", where,
            fmt::format("{}, {}: {}", where, words.route, changedFrom(words.type, old[at].type)));
    }
    for (size_t i = 0; i < old.size(); ++i)
      if (!matched[i]) {
        std::string where = fmt::format("channel of {}", old[i].value);
        add("channel", where, fmt::format("{}, {}, {}: gone", where, old[i].route, old[i].type));
      }
  }

  void compareOperators() {
    const std::vector<std::string> &now = now_.linked.lines, &old = old_.linked.lines;
    std::optional<size_t> line = firstDifferentLine(old, now);
    if (!line)
      return;
    auto at = [&](const std::vector<std::string> &lines) {
      return *line < lines.size() ? "`" + llvm::StringRef(lines[*line]).trim().str() + "`"
                                  : "nothing";
    };
    add("operator", fmt::format("operator {}", *line),
        fmt::format("the first operator that differs, {}: {} ({} in all)", *line,
                    changedFrom(at(now), at(old)),
                    changedFrom(std::to_string(now.size()), std::to_string(old.size()))));
  }

  void compareWeights() {
    const auto &now = now_.linked.weights, &old = old_.linked.weights;
    auto content = [](const std::string &name, const std::string &line) {
      return line.substr(std::min(line.size(), name.size() + 1));
    };
    for (const auto &[name, line] : now) {
      auto before = old.find(name);
      if (before == old.end())
        add("weight", name, "weight " + name + ": new");
      else if (before->second != line)
        add("weight", name,
            "weight " + name + ": " +
                changedFrom(content(name, line), content(name, before->second)));
    }
    for (const auto &[name, line] : old)
      if (!now.count(name))
        add("weight", name, "weight " + name + ": gone");
    compareObjects();
  }

  /// The lines of weights say of an object its type only, such as of the packed weights of a
  /// quantised layer.
  void compareObjects() {
    const auto &old = old_.linked.objects;
    for (const auto &[name, text] : now_.linked.objects)
      if (auto before = old.find(name); before != old.end() && before->second != text)
        add("weight", name, "weight " + name + ": the content of its objects differs");
  }

  static Plan withoutVersions(const Side &side) {
    Plan plan = side.artifact.plan;
    plan.minor = 0;
    plan.toolVersion.clear();
    plan.torchVersion.clear();
    plan.normalisation.typeDecisions.clear(); // it may differ for equal programs
    for (Channel &channel : plan.channels)
      if (channel.kind == Channel::Kind::Weight)
        channel.tensor = TensorSpec(); // follows from the attribute; absent before 1.4
    plan.requiredFeatures.clear();     // follow from the rest
    return plan;
  }

  void noteVersions() {
    const Plan &now = now_.artifact.plan, &old = old_.artifact.plan;
    auto note = [&](const char *what, const std::string &a, const std::string &b) {
      if (a != b)
        result_.notes.push_back(fmt::format("{}: {}", what, changedFrom(a, b)));
    };
    note("pipec", now.toolVersion, old.toolVersion);
    note("LibTorch", now.torchVersion, old.torchVersion);
    note("format", fmt::format("{}.{}", now.major, now.minor),
         fmt::format("{}.{}", old.major, old.minor));
  }

  const Side &now_, &old_;
  ArtifactDifferences result_;
};

} // namespace

static llvm::Expected<ArtifactDifferences> compareOpened(Artifact now, Artifact old) {
  Side second = TRY(linkedSide(std::move(now)));
  Side first = TRY(linkedSide(std::move(old)));
  return guardTorch(ExitCode::BadArtifact, "comparing the artifacts",
                    [&] { return ArtifactComparison(second, first).run(); });
}

/// The stages that evaluate; their versions are those of the training.
static llvm::Error compareEvaluations(const Artifact &now, const Artifact &old,
                                      std::vector<Finding> &findings) {
  std::optional<Artifact> second = TRY(evaluationOf(now));
  std::optional<Artifact> first = TRY(evaluationOf(old));
  if (!second && !first)
    return llvm::Error::success();
  if (!second || !first) {
    findings.push_back(differenceFound("stages", "evaluation",
                                       std::string("evaluation: ") + (second ? "new" : "gone")));
    return llvm::Error::success();
  }
  ArtifactDifferences differences = TRY(compareOpened(std::move(*second), std::move(*first)));
  for (Finding &finding : differences.findings) {
    finding.message = "evaluation: " + finding.message;
    findings.push_back(std::move(finding));
  }
  return llvm::Error::success();
}

llvm::Expected<ArtifactDifferences> compareArtifacts(const std::string &now,
                                                     const std::string &old) {
  Artifact second = TRY(openArtifact(now));
  Artifact first = TRY(openArtifact(old));
  ArtifactDifferences differences = TRY(compareOpened(second, first));
  TRY(compareEvaluations(second, first, differences.findings));
  return differences;
}

} // namespace pipec
