#include "ir/batch/discovery/DiscoveryNotes.h"

#include "ir/batch/discovery/GivenMerges.h"
#include "ir/plan/LossLeaf.h"
#include "ir/plan/OutputPath.h"
#include "ir/plan/PlanNames.h"
#include "ir/support/Llvm.h"
#include "ir/support/Words.h"
#include "ir/values/Arguments.h"
#include "ir/values/MapTensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <ATen/core/Tensor.h>

namespace pipec {

namespace {

using Kind = MergeRule::Kind;
using Equal = ResultCheck::Equal;

bool hasFirstDim(const c10::IValue &value, int64_t size) {
  return llvm::any_of(tensorsIn(value), [&](const at::Tensor &tensor) {
    return tensor.defined() && tensor.dim() > 0 && tensor.size(0) == size;
  });
}

/// "x=0,", "batch.x=0,": what is cut, as --batch-dim takes it, each with a comma.
std::string namedCuts(const InputSpec &input) {
  std::string text;
  if (input.batchDim)
    text = fmt::format("{}={},", input.name, *input.batchDim);
  for (const PartDim &part : input.parts)
    if (part.dim)
      text += fmt::format("{}.{}={},", input.name, part.path, *part.dim);
  return text;
}

/// "dimension 0 of x and y, dimension 1 of h": what is cut.
std::string partsOf(const Signature &signature) {
  std::vector<std::pair<int64_t, std::vector<std::string>>> byDim;
  auto add = [&](int64_t dim, const std::string &name) {
    auto same = llvm::find_if(byDim, [&](const auto &one) { return one.first == dim; });
    if (same == byDim.end())
      same = byDim.insert(byDim.end(), {dim, {}});
    same->second.push_back(name);
  };
  for (const InputSpec &input : signature.inputs) {
    if (input.batchDim)
      add(*input.batchDim, input.name);
    for (const PartDim &part : input.parts)
      if (part.dim)
        add(*part.dim, input.name + "." + part.path);
  }
  std::vector<std::string> texts;
  for (const auto &[dim, names] : byDim)
    texts.push_back(fmt::format("dimension {} of {}", dim, fmt::join(names, " and ")));
  return fmt::format("{}", fmt::join(texts, " and "));
}

/// The dimensions other than the first along which arguments are cut: only the trial shows these.
/// `why`: what this choice has and others lack. Empty: there are none, or the user named them.
std::string noteOnDims(const Signature &signature, const DiscoveryOptions &options,
                       const char *why) {
  std::vector<std::string> cut, said;
  for (size_t i = 0; i < signature.inputs.size(); ++i) {
    const InputSpec &input = signature.inputs[i];
    if (options.batchDimGiven[i] || input.batchDim.value_or(0) == 0)
      continue;
    cut.push_back(fmt::format("dimension {} of {}", *input.batchDim, input.name));
    said.push_back(fmt::format("{}={}", input.name, *input.batchDim));
  }
  return cut.empty() || anyDimGiven(signature, options.batchDimGiven)
             ? ""
             : fmt::format("the batch is {}, the choice {}; --batch-dim {} confirms it",
                           fmt::join(cut, ", "), why, fmt::join(said, ","));
}

/// Tensors of the batch's size that stay whole.
std::vector<std::string> notesOnWhole(const Signature &signature, const Values &inputs,
                                      const DiscoveryOptions &options, int64_t batch) {
  std::vector<std::string> whole;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const InputSpec &input = signature.inputs[i];
    if (options.batchDimGiven[i])
      continue;
    for (const auto &[path, tensor] : tensorsByPath(inputs[i]))
      if (!input.parts.empty() && !cutOf(input).at(path) && hasFirstDim(tensor, batch))
        whole.push_back(input.name + "." + path);
    if (input.parts.empty() && !input.batchDim && hasFirstDim(inputs[i], batch))
      whole.push_back(input.name);
  }
  std::vector<std::string> notes;
  std::string others; // what is cut, to be named along with one more
  for (size_t i = 0; i < inputs.size(); ++i)
    others += namedCuts(signature.inputs[i]);
  const std::string parts = partsOf(signature);
  for (const std::string &name : whole) {
    if (batch == 1)
      notes.push_back(
          fmt::format("every micro-batch gets the whole of {} and a part of {}: in an example of "
                      "one sample, its size 1 does not show whether it has a row per sample; "
                      "pass an example of two samples, or --batch-dim {}{}=0 to cut it",
                      name, parts, others, name));
    else
      notes.push_back(
          fmt::format("every micro-batch gets the whole of {} and a part of {}, although {} has {} "
                      "rows like the batch: of the ways to cut the example, this one fits the test "
                      "runs best; --batch-dim {}=none confirms it; if each row belongs to a "
                      "sample, --batch-dim {}{}=0 cuts it, too",
                      name, parts, name, batch, name, others, name));
  }
  return notes;
}

/// A tensor of the argument that is cut, and its dimension; nothing: none is.
std::pair<std::string, std::optional<int64_t>> firstCut(const InputSpec &input) {
  if (input.batchDim)
    return {input.name, input.batchDim};
  for (const PartDim &part : input.parts)
    if (part.dim)
      return {input.name + "." + part.path, part.dim};
  return {};
}

/// Begins with a semicolon. Empty: nothing is cut. `suggestion`: of BatchDiscovery.
std::string hintOnDim(const Signature &signature, const std::string &suggestion) {
  for (const InputSpec &input : signature.inputs)
    if (const auto [name, dim] = firstCut(input); dim)
      return fmt::format("; if dimension {} of {} is not the batch, pass --batch-dim {}", *dim,
                         name, suggestion.empty() ? name + "=K" : suggestion);
  return "";
}

std::string noteOnMixing(const Signature &signature, const std::string &mixing,
                         const std::string &suggestion) {
  return fmt::format("samples in a micro-batch affect each other ({}), so results match "
                     "running each micro-batch separately, not the whole batch{}",
                     mixing, hintOnDim(signature, suggestion));
}

/// The same of a result that a warning has named; begins with a semicolon.
std::string noteOnMixed(const Signature &signature, const std::string &mixing,
                        const std::string &suggestion) {
  return fmt::format("; samples in a micro-batch affect each other ({}){}", mixing,
                     hintOnDim(signature, suggestion));
}

/// Whether the dimension that is cut may be the steps of a sequence: a loss does not show which
/// dimension its samples are along.
bool mayHaveSteps(const Signature &signature, const Values &inputs) {
  bool any = false;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (signature.inputs[i].batchDim)
      forEachTensor(inputs[i], [&](const at::Tensor &tensor) {
        const bool isText = tensor.defined() && at::isIntegralType(tensor.scalar_type(), false);
        any = any || (tensor.defined() && tensor.dim() >= (isText ? 2 : 3));
      });
  return any;
}

/// What makes the mean of a loss over micro-batches differ beside state, and what helps.
std::string adviceBesideState(const Signature &signature, const Values &inputs,
                              const DiscoveryOptions &options, const std::string &suggestion) {
  if (mayBePair(signature))
    return "the first result is a sum and the second its count only if both add up over "
           "micro-batches; if samples affect each other, as in a contrastive loss, larger "
           "micro-batches bring it nearer";
  const bool mayBeSteps =
      mayHaveSteps(signature, inputs) && !anyDimGiven(signature, options.batchDimGiven);
  const std::string hint = mayBeSteps ? hintOnDim(signature, suggestion) : "";
  const bool confirmed = !hint.empty() && !suggestion.empty(); // by a trial: the likeliest cause
  return (confirmed ? llvm::StringRef(hint).drop_front(2).str() + "; " : "") +
         "a loss over the elements that count is exact if the model's result is the pair of their "
         "sum and their number: return (sum, count); one in which samples affect each other, as "
         "in a contrastive loss, depends on the micro-batches" +
         (confirmed ? "" : hint);
}

/// What makes the mean of a loss over micro-batches differ, and what helps. `beside`: see above.
std::string adviceOnLoss(const DiscoveryOptions &options, StateEffect effect,
                         const std::string &beside) {
  if (!options.norms.empty())
    return causeOfNorms(options.norms);
  if (effect == StateEffect::None)
    return beside;
  const std::string state = "the model writes state, so the loss of a sample depends on the "
                            "micro-batch that it is in; larger micro-batches bring it nearer";
  return effect == StateEffect::All ? state
                                    : state + "; there may be another reason, too: " + beside;
}

/// A result whose merged micro-batches differ from the whole batch. `advice`: on a loss, or empty.
std::string noteOnResult(const std::string &path, const MergeRule &rule, const ResultCheck &check,
                         const std::string &advice) {
  const std::string how = rule.kind == Kind::Mean   ? "the mean over micro-batches"
                          : rule.kind == Kind::Sum  ? "the sum over micro-batches"
                          : rule.kind == Kind::Same ? "the value of every micro-batch"
                                                    : "a list with a value per micro-batch";
  const std::string differs = " (" + check.reason + ")";
  if (!advice.empty() && rule.kind == Kind::Mean)
    return fmt::format("{} is {}, which differs from the whole batch{}; {}", resultName(path), how,
                       differs, advice);
  if (!check.fits.empty())
    return fmt::format("{} is {}, which differs from the whole batch{}; in the test runs, --merge "
                       "{}={} gives that of the whole batch",
                       resultName(path), how, differs, path, check.fits);
  return fmt::format("{} is {}, which differs from the whole batch{}; to merge it in another way, "
                     "pass --merge {}=concat:K|join|sum|mean|list|same",
                     resultName(path), how, differs, path);
}

/// A rule that does not follow from sizes alone.
bool isUntested(const MergeRule &rule) {
  return rule.kind == Kind::Sum || rule.kind == Kind::Mean || rule.kind == Kind::Join;
}

/// Only one batch size has been seen, and it is along another dimension than in the inputs.
bool isGuessedConcat(const MergeRule &rule, const ResultCheck &check, const Signature &signature) {
  return rule.kind == Kind::Concat && check.equal != Equal::Yes && !signature.batchSymbolic &&
         llvm::none_of(signature.inputs,
                       [&](const InputSpec &input) { return firstCut(input).second == rule.dim; });
}

/// A result for which the runs do not show a merge rule.
std::string noteOnUnknown(const std::string &path, const ResultCheck &check) {
  return fmt::format(
      "{} is a list with a value per micro-batch: no test run shows how to merge these values "
      "({}); to merge them, pass --merge {}=concat:K|join|sum|mean|same",
      resultName(path), check.reason, path);
}

} // namespace

/// Samples of the inputs; 0: nothing is cut.
static int64_t samplesIn(const Signature &signature, const Values &inputs) {
  int64_t batch = 0;
  for (size_t i = 0; i < inputs.size() && batch == 0; ++i)
    forEachTensor(inputs[i], cutOf(signature.inputs[i]),
                  [&](const at::Tensor &tensor, std::optional<int64_t> dim) {
                    if (batch == 0 && dim && tensor.defined() && *dim < tensor.dim())
                      batch = tensor.size(*dim);
                  });
  return batch;
}

void addNotes(BatchDiscovery &found, const Signature &signature, const CutWay &way,
              const Values &inputs, const DiscoveryOptions &options,
              llvm::ArrayRef<StateEffect> effects) {
  if (!found.notCut.empty()) {
    found.notes = {
        "the batch is not cut into micro-batches: " + found.notCut +
        (found.samplesInLists ? "" : "; --batch-dim NAME=K cuts along dimension K of NAME anyway")};
    return;
  }
  const int64_t batch = samplesIn(signature, inputs);
  if (batch == 0)
    return;
  const std::string &mixing = way.mixing;
  const bool isIndependent =
      mixing.empty() && llvm::none_of(found.results, [](const ResultCheck &check) {
        return check.equal == Equal::No;
      });
  if (std::string note =
          noteOnDims(signature, options,
                     isIndependent ? "that keeps samples independent" : "that merges every result");
      !note.empty())
    found.notes.push_back(std::move(note));
  llvm::append_range(way.isTie ? found.warnings : found.notes,
                     notesOnWhole(signature, inputs, options, batch));
  if (const std::string draw = options.valueDependentDraw(); !draw.empty())
    found.notes.push_back(fmt::format(
        "the number of random numbers that {} draws depends on the values of its input: a change "
        "of one sample shifts the draws of the others, so test runs cannot tell whether samples "
        "affect each other",
        draw));
  const std::vector<std::string> paths = outputPaths(signature);
  const std::vector<bool> given = givenLeaves(signature, options.merges);
  const std::string besideState =
      options.trains ? adviceBesideState(signature, inputs, options, found.suggestion) : "";
  std::string mixes = mixing;
  // Results were compared with the whole batch: one that is not tried fits several rules.
  const bool mayBeOther = found.trial.notTried(options.drawsRandom()).empty();
  for (size_t l = 0; l < paths.size(); ++l) {
    const MergeRule &rule = signature.leaves[l].merge;
    const ResultCheck &check = found.results[l];
    if (check.equal == Equal::NotTried && rule.kind == Kind::List && !given[l])
      found.warnings.push_back(noteOnUnknown(paths[l], check));
    const bool isSame = rule.kind == Kind::Same && mayBeOther;
    if (check.equal == Equal::NotTried && (isUntested(rule) || isSame) && !given[l])
      (mayBeOther && !isSame ? found.warnings : found.notes)
          .push_back(fmt::format("{} is merged by {}, which no test run confirms ({}); --merge "
                                 "{}={} confirms it, --merge {}=RULE chooses another rule",
                                 resultName(paths[l]), toString(rule), check.reason, paths[l],
                                 toString(rule), paths[l]));
    if (isGuessedConcat(rule, check, signature) && !given[l])
      found.warnings.push_back(fmt::format(
          "{} is concatenated along dimension {}, only because it has the size of the batch there "
          "({}); --merge {}=RULE chooses another rule",
          resultName(paths[l]), rule.dim, check.reason, paths[l]));
    if (check.equal == Equal::No && given[l] && rule.kind != Kind::List) {
      // One warning for one result: samples that affect each other are the cause.
      const bool isMixed = startsWith(mixes, resultName(paths[l]) + " ");
      found.warnings.push_back(
          fmt::format("{}, merged by {} as given, differs from that of the whole batch ({}){}",
                      resultName(paths[l]), toString(rule), check.reason,
                      isMixed ? noteOnMixed(signature, mixes, found.suggestion) : ""));
      if (isMixed)
        mixes.clear();
    }
    if (check.equal != Equal::No || given[l])
      continue;
    if (rule.kind != Kind::Concat && rule.kind != Kind::Join)
      found.warnings.push_back(
          noteOnResult(paths[l], rule, check,
                       options.trains ? adviceOnLoss(options, effects[l], besideState) : ""));
    else if (effects[l] != StateEffect::None && mixing.empty())
      found.warnings.push_back(
          fmt::format("{} depends on the model's state, which every micro-batch writes, so it "
                      "differs from the whole batch ({})",
                      resultName(paths[l]), check.reason));
    else if (mixes.empty() && !isGuessedConcat(rule, check, signature))
      mixes = resultName(paths[l]) + " " + check.reason;
  }
  if (!mixes.empty() && options.drawsRandom())
    mixes += "; the model draws random numbers, which may be the reason";
  if (!mixes.empty())
    found.warnings.push_back(noteOnMixing(signature, mixes, found.suggestion));
}

std::string noteOnState(llvm::ArrayRef<std::string> names) {
  constexpr size_t kMostNames = 4; // of the many buffers of batch norms
  return fmt::format(
      "the model writes state ({}): each micro-batch writes it in order, whereas the "
      "whole batch writes it once",
      someOf(names, kMostNames));
}

std::string warningOnTie(const Signature &fuller, const Signature &fewer) {
  std::vector<std::string> whole, said;
  for (size_t i = 0; i < fuller.inputs.size(); ++i) {
    const InputSpec &input = fuller.inputs[i];
    const ArgumentCut less = cutOf(fewer.inputs[i]);
    if (input.batchDim && !isCut(fewer.inputs[i]))
      whole.push_back(input.name);
    for (const PartDim &part : input.parts)
      if (part.dim && !less.at(part.path))
        whole.push_back(input.name + "." + part.path);
  }
  for (const std::string &name : whole)
    said.push_back(name + "=none");
  return fmt::format("every micro-batch gets a part of {}, which have equally many rows, although "
                     "the test runs fit better with the whole of {}: if its rows are no samples, "
                     "pass --batch-dim {}",
                     partsOf(fuller), fmt::join(whole, " and "), fmt::join(said, ","));
}

std::string causeOfNorms(const std::string &norms) {
  return fmt::format("batch norm ({}) uses the statistics of each micro-batch, so the loss of a "
                     "sample depends on the micro-batch that it is in; larger micro-batches bring "
                     "it nearer",
                     norms);
}

std::string noteOnFullerCut(const Signature &chosen, const Signature &fuller) {
  std::vector<std::string> whole, cut;
  std::string said;
  for (size_t i = 0; i < chosen.inputs.size(); ++i) {
    if (isCut(fuller.inputs[i]))
      (isCut(chosen.inputs[i]) ? cut : whole).push_back(chosen.inputs[i].name);
    said += namedCuts(fuller.inputs[i]);
  }
  return fmt::format("every micro-batch gets the whole of {} and a part of {}; cutting {} keeps "
                     "samples independent, too: if that is the batch, pass --batch-dim {}",
                     fmt::join(whole, " and "), fmt::join(cut, " and "), partsOf(fuller),
                     llvm::StringRef(said).rtrim(',').str());
}

llvm::Error notCutError(const std::string &why, bool samplesInLists, int64_t microBatches) {
  return makeError(ExitCode::Usage,
                   fmt::format("micro-batches: expected 1, got {}: {}", microBatches, why),
                   samplesInLists ? "pass --microbatches 1"
                                  : "pass --microbatches 1, or name what to cut with --batch-dim");
}

} // namespace pipec
