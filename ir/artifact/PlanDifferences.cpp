#include "ir/artifact/PlanDifferences.h"

#include "ir/plan/OutputPath.h"
#include "ir/plan/PlanNames.h"
#include "ir/plan/PlanToJson.h"
#include "ir/support/Llvm.h"
#include "ir/text/SignatureText.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/ranges.h>

#include <map>
#include <set>

namespace pipec {

std::string changedFrom(const std::string &now, const std::string &before) {
  return fmt::format("{}, before {}", now, before);
}

Finding differenceFound(std::string code, std::string where, std::string message) {
  return {std::move(code), std::move(where), std::move(message), ExitCode::Mismatch};
}

namespace {

std::string listed(const std::vector<std::string> &names) {
  return names.empty() ? "none" : llvm::join(names, ", ");
}

std::string textOf(const std::optional<llvm::json::Value> &value) {
  if (!value)
    return "none";
  std::string text;
  llvm::raw_string_ostream os(text);
  os << *value;
  return os.str();
}

std::string textOf(const MergeRule &rule) {
  return toString(rule.kind).str() +
         (rule.kind == MergeRule::Kind::Concat ? fmt::format(" along {}", rule.dim) : "");
}

std::string textOf(const TensorSpec &spec) {
  std::string text = specText(spec);
  return text.empty() ? "not known" : llvm::StringRef(text).ltrim().str();
}

std::string textOf(bool value) { return value ? "yes" : "no"; }

/// "{third: 0, first: 1}" of a result; a leaf is its number.
std::string textOf(const OutputTree &tree) {
  if (tree.kind == OutputTree::Kind::Leaf)
    return std::to_string(tree.leaf);
  std::vector<std::string> parts;
  for (size_t i = 0; i < tree.children.size(); ++i)
    parts.push_back((i < tree.keys.size() ? tree.keys[i] + ": " : "") + textOf(tree.children[i]));
  std::string inside = llvm::join(parts, ", ");
  switch (tree.kind) {
  case OutputTree::Kind::Leaf:
    break;
  case OutputTree::Kind::Tuple:
    return tree.typeName + "(" + inside + ")";
  case OutputTree::Kind::List:
    return "[" + inside + "]";
  case OutputTree::Kind::Dict:
    return "{" + inside + "}";
  }
  return inside;
}

class PlanComparison {
public:
  PlanComparison(const Plan &old, const Plan &now, std::vector<Finding> &findings)
      : old_(old), now_(now), findings_(findings) {}

  void run() {
    tell("source", "", "the source", now_.sourceDigest, old_.sourceDigest);
    tell("method", "", "the method", now_.signature.method, old_.signature.method);
    compareInputs();
    compareOutputs();
    compareStages();
    compareModules();
    compareTies();
    compareOptions();
  }

private:
  /// One finding when the two texts differ.
  void tell(const char *code, const std::string &where, const std::string &what,
            const std::string &now, const std::string &before) {
    if (now != before)
      add(code, where, what + ": " + changedFrom(now, before));
  }
  void add(const char *code, std::string where, std::string message) {
    findings_.push_back(differenceFound(code, std::move(where), std::move(message)));
  }

  void compareInputs() {
    const std::vector<InputSpec> &now = now_.signature.inputs, &old = old_.signature.inputs;
    auto names = [](const std::vector<InputSpec> &inputs) {
      std::vector<std::string> result;
      for (const InputSpec &input : inputs)
        result.push_back(input.name);
      return result;
    };
    tell("signature", "", "the arguments", listed(names(now)), listed(names(old)));
    for (const InputSpec &input : now) {
      auto before = llvm::find_if(
          old, [&](const InputSpec &candidate) { return candidate.name == input.name; });
      if (before == old.end())
        continue;
      std::string where = "argument " + input.name;
      auto say = [&](const char *what, const std::string &a, const std::string &b) {
        tell("signature", where, where + ": " + what, a, b);
      };
      say("type", input.type, before->type);
      say("default", textOf(input.defaultValue), textOf(before->defaultValue));
      say("batch dimension", batchDimText(input), batchDimText(*before));
      say("written by the model", textOf(input.written), textOf(before->written));
      say("example", textOf(input.tensor), textOf(before->tensor));
    }
    tell("signature", "", "any batch size", textOf(now_.signature.batchSymbolic),
         textOf(old_.signature.batchSymbolic));
    tell("signature", "", "the example's batch size", std::to_string(now_.signature.batchSize),
         std::to_string(old_.signature.batchSize));
  }

  void compareOutputs() {
    tell("signature", "", "the result", textOf(now_.signature.outputs),
         textOf(old_.signature.outputs));
    const std::vector<OutputLeaf> &now = now_.signature.leaves, &old = old_.signature.leaves;
    for (size_t i = 0; i < std::min(now.size(), old.size()); ++i) {
      const std::string where = "output " + outputPath(now_.signature, i);
      tell("signature", where, where + ": type", now[i].type, old[i].type);
      tell("signature", where, where + ": tensor", textOf(now[i].tensor), textOf(old[i].tensor));
      tell("merge-rule", where, where + ": merge rule", textOf(now[i].merge), textOf(old[i].merge));
    }
  }

  static std::string extentOf(const StagePlan &stage) {
    auto name = [](const std::string &module) { return module.empty() ? "-" : module; };
    return stage.firstModule == stage.lastModule
               ? name(stage.firstModule)
               : name(stage.firstModule) + " .. " + name(stage.lastModule);
  }

  void compareStages() {
    tell("stages", "", "stages", std::to_string(now_.stages.size()),
         std::to_string(old_.stages.size()));
    for (size_t s = 0; s < std::min(now_.stages.size(), old_.stages.size()); ++s) {
      const StagePlan &now = now_.stages[s], &old = old_.stages[s];
      std::string where = fmt::format("stage {}", s);
      tell("stages", where, where, extentOf(now), extentOf(old));
      tell("stages", where, where + ": operators", std::to_string(now.nodes),
           std::to_string(old.nodes));
      tell("option", where, where + ": rank", std::to_string(now.rank), std::to_string(old.rank));
      tell("stages", where, where + ": numbers of random operators",
           fmt::format("[{}]", fmt::join(now.effects.randomOps, ", ")),
           fmt::format("[{}]", fmt::join(old.effects.randomOps, ", ")));
    }
  }

  /// Stages by module that holds weights in them.
  static std::map<std::string, std::set<size_t>> holders(const Plan &plan) {
    std::map<std::string, std::set<size_t>> result;
    for (size_t s = 0; s < plan.stages.size(); ++s)
      for (const StageAttribute &attribute : plan.stages[s].attributes)
        result[llvm::StringRef(attribute.name).contains('.')
                   ? llvm::StringRef(attribute.name).rsplit('.').first.str()
                   : ""]
            .insert(s);
    return result;
  }

  /// The old and new stages of all modules below `prefix`, if they are the same for all.
  using Move = std::pair<std::set<size_t>, std::set<size_t>>;
  static std::optional<Move> commonMove(const std::map<std::string, Move> &moves,
                                        const std::string &prefix) {
    std::optional<Move> common;
    for (const auto &[module, move] : moves) {
      if (module != prefix && !startsWith(module, prefix + "."))
        continue;
      if (common && *common != move)
        return std::nullopt;
      common = move;
    }
    return common;
  }

  static std::string stagesText(const std::set<size_t> &stages) {
    return fmt::format("{} {}", stages.size() == 1 ? "stage" : "stages",
                       fmt::join(stages, " and "));
  }

  /// Names the outermost module whose content moved to the same stages.
  void compareModules() {
    std::map<std::string, std::set<size_t>> before = holders(old_), after = holders(now_);
    std::map<std::string, Move> moves;
    for (const auto &[module, stages] : after)
      if (auto found = before.find(module); found != before.end())
        moves[module] = {found->second, stages};
    std::set<std::string> told;
    for (const auto &[module, move] : moves) {
      if (move.first == move.second)
        continue;
      std::string outermost = module;
      for (size_t dot = module.find('.'); dot != std::string::npos;
           dot = module.find('.', dot + 1)) {
        std::string prefix = module.substr(0, dot);
        if (std::optional<Move> common = commonMove(moves, prefix); common && *common == move) {
          outermost = prefix;
          break;
        }
      }
      if (!told.insert(outermost).second)
        continue;
      std::string name = outermost.empty() ? "the model's own weights" : outermost;
      add("module-moved", name,
          fmt::format("{} moved from {} to {}", name, stagesText(move.first),
                      stagesText(move.second)));
    }
  }

  void compareTies() {
    auto byNames = [](const Plan &plan) {
      std::map<std::string, const Tie *> result;
      for (const Tie &tie : plan.ties)
        result[llvm::join(tie.names, ", ")] = &tie;
      return result;
    };
    std::map<std::string, const Tie *> now = byNames(now_), old = byNames(old_);
    for (const auto &[names, tie] : now) {
      std::string where = "tie " + names;
      auto before = old.find(names);
      if (before == old.end()) {
        add("tie", where, where + ": new");
        continue;
      }
      std::set<size_t> stages(tie->stages.begin(), tie->stages.end()),
          stagesBefore(before->second->stages.begin(), before->second->stages.end());
      tell("tie", where, where, toString(tie->mode).str(), toString(before->second->mode).str());
      tell("tie", where, where, stagesText(stages), stagesText(stagesBefore));
      tell("tie", where, where + ": owner", fmt::format("stage {}", tie->owner),
           fmt::format("stage {}", before->second->owner));
    }
    for (const auto &[names, tie] : old)
      if (!now.count(names))
        add("tie", "tie " + names, "tie " + names + ": gone");
  }

  void compareOptions() {
    tell("option", "", "mode", toString(now_.mode).str(), toString(old_.mode).str());
    tell("option", "", "micro-batches", std::to_string(now_.microBatches),
         std::to_string(old_.microBatches));
    tell("option", "", "ranks", std::to_string(now_.ranks), std::to_string(old_.ranks));
    tell("option", "", "schedule", now_.scheduleName, old_.scheduleName);
    const Normalisation &now = now_.normalisation, &old = old_.normalisation;
    tell("option", "", "training flags", trainingFlagsText(now.training),
         trainingFlagsText(old.training));
    tell("option", "", "modules kept in eval mode", listed(now.keepEval), listed(old.keepEval));
    auto texts = [](const Plan &plan) {
      std::set<std::string> result;
      for (const Obligation &obligation : plan.obligations)
        result.insert(toString(obligation));
      return result;
    };
    std::set<std::string> before = texts(old_), after = texts(now_);
    for (const std::string &text : after)
      if (!before.count(text))
        add("obligation", "", "obligation \"" + text + "\": new");
    for (const std::string &text : before)
      if (!after.count(text))
        add("obligation", "", "obligation \"" + text + "\": gone");
  }

  const Plan &old_, &now_;
  std::vector<Finding> &findings_;
};

} // namespace

void comparePlans(const Plan &old, const Plan &now, std::vector<Finding> &findings) {
  PlanComparison(old, now, findings).run();
}

} // namespace pipec
