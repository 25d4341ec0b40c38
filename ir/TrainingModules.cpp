#include "ir/TrainingModules.h"

#include "ir/NodeInfo.h"
#include "ir/TrainingWalk.h"
#include "ir/support/Llvm.h"
#include "ir/support/Words.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

namespace {

using torch::jit::Node;
using torch::jit::Value;

constexpr size_t kMostNames = 4;

std::optional<c10::IValue> argument(Node *node, llvm::StringRef name, KnownValue valueOf) {
  Value *input = inputNamed(node, name);
  return input ? valueOf(input) : std::nullopt;
}

bool isTrue(const std::optional<c10::IValue> &value) {
  return value && value->isBool() && value->toBool();
}

} // namespace

bool isInTrainingMode(Node *node, KnownValue valueOf) {
  if (node->kind() == c10::aten::instance_norm) { // without running statistics, both modes are one
    const std::optional<c10::IValue> mean = argument(node, "running_mean", valueOf);
    return isTrue(argument(node, "use_input_stats", valueOf)) && !(mean && mean->isNone());
  }
  const bool isAttention = inputNamed(node, "dropout_p") && isRandomOp(node->kind().toQualString());
  if (isAttention && !argument(node, "dropout_p", valueOf))
    return false; // a run decides
  if (!isAttention && !isTrue(argument(node, "train", valueOf)) &&
      !isTrue(argument(node, "training", valueOf)))
    return false;
  for (const char *rate : {"dropout", "p", "dropout_p"})
    if (const auto value = argument(node, rate, valueOf);
        value && value->isDouble() && value->toDouble() == 0)
      return false;
  const std::optional<c10::IValue> statistics = argument(node, "running_mean", valueOf);
  return !(statistics && statistics->isNone());
}

/// Whether an operator computes with statistics of the whole micro-batch.
static bool isBatchNorm(llvm::StringRef name) {
  return name.contains("norm") && !name.contains("instance_norm");
}

bool isNormWithoutState(Node *node, KnownValue valueOf) {
  const std::optional<c10::IValue> statistics = argument(node, "running_mean", valueOf);
  return isBatchNorm(node->kind().toUnqualString()) && statistics && statistics->isNone() &&
         (isTrue(argument(node, "train", valueOf)) || isTrue(argument(node, "training", valueOf)));
}

static void addTo(std::vector<std::string> &names, const std::string &name) {
  if (!llvm::is_contained(names, name))
    names.push_back(name);
}

void TrainingModules::add(const std::string &path, const std::string &name, Cause cause) {
  const Found found{path.empty() ? "the model itself" : path, name, cause};
  if (!llvm::is_contained(found_, found))
    found_.push_back(found);
}

void TrainingModules::add(const TrainingModules &other) {
  for (const Found &found : other.found_)
    if (!llvm::is_contained(found_, found))
      found_.push_back(found);
}

std::vector<std::string> TrainingModules::modulesOf(llvm::ArrayRef<Cause> causes) const {
  std::vector<std::string> modules;
  for (const Found &found : found_)
    if (llvm::is_contained(causes, found.cause))
      addTo(modules, found.module);
  return modules;
}

/// Other code counts for modules without an operator in training mode: a batch norm also counts its
/// batches.
std::vector<std::string> TrainingModules::operatorsOf(llvm::ArrayRef<Cause> causes) const {
  auto isNamed = [&](const Found &other) {
    return llvm::any_of(found_, [&](const Found &found) {
      return found.module == other.module && !found.name.empty() && found.cause != Cause::AnyMode;
    });
  };
  std::vector<std::string> names;
  for (const Found &found : found_)
    if (llvm::is_contained(causes, found.cause) && (!found.name.empty() || !isNamed(found)))
      addTo(names, found.name);
  return names;
}

std::string TrainingModules::norms() const {
  std::vector<std::string> norms;
  for (const Found &found : found_)
    if (isBatchNorm(found.name))
      addTo(norms, found.module);
  return someOf(norms, kMostNames);
}

static std::string effectOf(llvm::StringRef name) {
  if (name.empty())
    return "the code does something else in eval mode";
  if (name.contains("instance_norm"))
    return "instance norm updates its statistics in each micro-batch";
  if (isBatchNorm(name))
    return "batch norm uses and updates the statistics of each micro-batch";
  const bool isDropout = name.contains("dropout") || name.contains("attention") ||
                         name.contains("lstm") || name.contains("gru") || name.contains("rnn");
  return (isDropout                   ? "dropout"
          : startsWith(name, "rrelu") ? "rrelu"
                                      : name.str()) +
         " draws random numbers";
}

/// What is in training mode, and what it does, each once.
static std::string explain(llvm::ArrayRef<std::string> names) {
  std::vector<std::string> shown, effects;
  for (const std::string &name : names) {
    addTo(shown, name.empty() ? "code that reads the flag training" : name);
    addTo(effects, effectOf(name));
  }
  return fmt::format("({}): {}", llvm::join(shown, ", "), llvm::join(effects, ", "));
}

static const char *isOrAre(llvm::ArrayRef<std::string> names) {
  return names.size() == 1 ? "is" : "are";
}

std::vector<std::string> TrainingModules::notes(const std::string &help) const {
  std::vector<std::string> notes;
  const std::vector<std::string> all = modulesOf({Cause::Flag, Cause::Constant}),
                                 constant = modulesOf({Cause::Constant}),
                                 traces = modulesOf({Cause::Trace});
  std::string remedy = help;
  if (!constant.empty() && !modulesOf({Cause::Flag}).empty())
    remedy += fmt::format(", but not {}: the code there has the mode as a constant, as traces and "
                          "dropout(x, training=True) do",
                          someOf(constant, kMostNames));
  else if (!constant.empty())
    remedy = "the code has the mode as a constant, which --infer does not change; save the model "
             "after model.eval(), or trace it then; dropout(x, training=True) draws in any mode";
  if (!all.empty())
    notes.push_back(fmt::format("{} {} in training mode {}; {}", someOf(all, kMostNames),
                                isOrAre(all), explain(operatorsOf({Cause::Flag, Cause::Constant})),
                                remedy));
  if (!traces.empty())
    notes.push_back(fmt::format("{} {} saved in training mode and {} random numbers ({}), which "
                                "--infer does not change; if the model draws in training mode "
                                "only, trace it after model.eval()",
                                someOf(traces, kMostNames), isOrAre(traces),
                                traces.size() == 1 ? "draws" : "draw",
                                llvm::join(operatorsOf({Cause::Trace}), ", ")));
  return notes;
}

TrainingModules trainingModules(const torch::jit::Module &module, const std::string &method,
                                const std::string &path) {
  return TrainingWalk(module, method, path).found;
}

} // namespace pipec
