#include "compiler/samples/SampleNotes.h"

#include "compiler/Import.h"
#include "compiler/cost/GraphEvaluator.h"
#include "compiler/samples/SampleRelations.h"
#include "compiler/samples/SizeThresholds.h"
#include "ir/NodeInfo.h"
#include "ir/batch/discovery/DiscoveryNotes.h"
#include "ir/batch/discovery/TrialSpecs.h"
#include "ir/plan/OutputPath.h"
#include "ir/plan/PlanNames.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

namespace {

using torch::jit::Node;
using Equal = ResultCheck::Equal;

constexpr size_t kMostNamed = 3; // operators in a note

std::string named(llvm::ArrayRef<Node *> nodes) {
  std::vector<std::string> texts;
  for (Node *node : nodes)
    if (std::string text = describeNode(node); !llvm::is_contained(texts, text))
      texts.push_back(text);
  const size_t more = texts.size() > kMostNamed ? texts.size() - kMostNamed : 0;
  texts.resize(texts.size() - more);
  return fmt::format("{}{}", fmt::join(texts, ", "), more ? fmt::format(" and {} more", more) : "");
}

class Noter {
public:
  Noter(Model &model, BatchDiscovery &found, PassContext &context, ModelRuns runAll,
        bool drawsRandom, const std::string &norms)
      : model_(model), found_(found), context_(context), runAll_(runAll), drawsRandom_(drawsRandom),
        norms_(norms), paths_(outputPaths(model.signature)) {}

  void note(const BatchForms &forms) {
    flopsPerSample_ = forms.flopsPerSample();
    const SampleRelations relations = sampleRelations(model_, forms);
    if (!drawsRandom_ && !allDiffer()) {
      tryThresholds(sizeThresholds(model_, forms));
      tryLargerBatch(relations);
    }
    if (mixes()) // the warning about it says the rest
      return nameCombining(relations);
    findRelated(relations);
    std::string text;
    if (!related_.empty())
      text = fmt::format("some operators look at several samples of a micro-batch at once ({}), "
                         "though no test run shows an effect: with other data, results may differ "
                         "from those of the whole batch",
                         named(related_));
    if (!averages_.empty())
      text += fmt::format("{}{} is a mean over the elements that count ({}): it equals the whole "
                          "batch's if every micro-batch has equally many of them, as always if "
                          "nothing is masked and no label is ignored; otherwise return the pair "
                          "(sum, count), which is merged exactly",
                          text.empty() ? "" : "; ", resultName(averagePath_), named(averages_));
    if (!untried_.empty())
      text += fmt::format("{}{}; batches on both sides of it were not compared, because they are "
                          "too large to try",
                          text.empty() ? "" : "; ", untried_);
    if (!text.empty())
      context_.notes.push_back(text + kHowToCompare);
  }

private:
  static constexpr const char *kHowToCompare =
      "; to compare on your own data, pass the output of pipe-run MODEL.pt with one micro-batch to "
      "pipe-run ARTIFACT --expect";

  bool mixes() const {
    return llvm::any_of(found_.results,
                        [](const ResultCheck &check) { return check.equal == Equal::No; });
  }

  /// Whether every result already differs from that of the whole batch, so that further sizes show
  /// nothing new.
  bool allDiffer() const {
    return mixes() && llvm::all_of(found_.results, [](const ResultCheck &check) {
             return check.equal == Equal::No;
           });
  }

  void tryThresholds(llvm::ArrayRef<SizeThreshold> thresholds) {
    constexpr size_t kMostTried = 4;
    size_t tried = 0;
    for (const SizeThreshold &threshold : thresholds) {
      if (tried < kMostTried && isCheap(threshold.samples, kMostFlops)) {
        ++tried;
        tryBatch(threshold.samples, whatDecides(threshold));
      } else if (untried_.empty() && threshold.isCondition) { // others are not worth a word
        untried_ = whatDecides(threshold);
      }
    }
  }

  /// Tries a larger batch. A value that depends on the place of a sample in the batch (a table with
  /// a row per place, a mask of places) or on the length of a list has no size that is compared
  /// with a constant, so the thresholds do not show it.
  void tryLargerBatch(const SampleRelations &relations) {
    constexpr int64_t kSamples = 33;
    if (mixes() || !isCheap(kSamples, kMostFlops / 8))
      return;
    if (!norms_.empty())
      return tryBatch(kSamples, causeOfNorms(norms_));
    std::vector<Node *> combining;
    for (size_t l = 0; l < paths_.size(); ++l) {
      addTo(combining, relations.reaching[l]);
      addTo(combining, relations.bends[l]);
    }
    tryBatch(kSamples,
             fmt::format("smaller batches do not show the cause, which may be {}, or something "
                         "that depends on the places of samples in the batch",
                         combining.empty() ? "a function of a sum or a mean" : named(combining)));
  }

  /// Notes the operators that combine samples on the way to results that differ from those of the
  /// whole batch.
  void nameCombining(const SampleRelations &relations) {
    std::vector<Node *> combining;
    std::vector<std::string> results;
    for (size_t l = 0; l < paths_.size(); ++l)
      if (found_.results[l].equal == Equal::No && !relations.reaching[l].empty()) {
        addTo(combining, relations.reaching[l]);
        results.push_back(resultName(paths_[l]));
      }
    if (!combining.empty())
      context_.notes.push_back(
          fmt::format("{} {} several samples at once, by {}", fmt::join(results, " and "),
                      results.size() == 1 ? "follows" : "follow", named(combining)));
  }

  static std::string whatDecides(const SizeThreshold &threshold) {
    if (!threshold.constant)
      return fmt::format("{} depends on sizes that follow the batch", describeNode(threshold.node));
    return fmt::format("{} depends on the constant {} and a size that follows the batch",
                       describeNode(threshold.node), *threshold.constant);
  }

  static constexpr int64_t kMostFlops = 16'000'000'000; // a second or so on one core

  bool isCheap(int64_t samples, int64_t mostFlops) const {
    constexpr int64_t kMostElements = int64_t(1) << 22, kMostSamples = 4096;
    const int64_t elements = countElements(found_.trial.base);
    return samples <= kMostSamples && runningFor(model_) == Running::All &&
           flopsPerSample_ <= mostFlops / (2 * samples) && // the batch and its halves
           elements / std::max<int64_t>(1, found_.trial.candidate.batch) <= kMostElements / samples;
  }

  void tryBatch(int64_t samples, const std::string &why) {
    const int64_t parts[] = {samples - samples / 2, samples / 2};
    const Halves halves = tryOtherSize(found_.trial, parts, runAll_);
    const auto checks = checkHalves(model_.signature, halves, parts);
    for (size_t l = 0; checks && l < checks->size(); ++l) {
      if ((*checks)[l].equal != Equal::No || found_.results[l].equal == Equal::No)
        continue;
      found_.results[l] = (*checks)[l];
      context_.warnings.push_back(fmt::format(
          "{} of a batch of {} differs from that of micro-batches of {} and {} ({}): {}",
          resultName(paths_[l]), samples, parts[0], parts[1], (*checks)[l].reason, why));
    }
  }

  void findRelated(const SampleRelations &relations) {
    for (size_t l = 0; l < paths_.size(); ++l) {
      const MergeRule::Kind rule = model_.signature.leaves[l].merge.kind;
      if (rule == MergeRule::Kind::Concat || rule == MergeRule::Kind::Join ||
          rule == MergeRule::Kind::Same)
        addTo(related_, relations.reaching[l]);
      if (rule != MergeRule::Kind::Mean && rule != MergeRule::Kind::Sum)
        continue;
      addTo(related_, relations.bends[l]);
      if (averages_.empty()) {
        averages_ = relations.averages[l];
        averagePath_ = paths_[l];
      }
    }
    for (const auto &[branch, over] : relations.branches)
      addTo(related_, {over});
  }

  static void addTo(std::vector<Node *> &all, llvm::ArrayRef<Node *> more) {
    for (Node *node : more)
      if (!llvm::is_contained(all, node))
        all.push_back(node);
  }

  Model &model_;
  BatchDiscovery &found_;
  PassContext &context_;
  ModelRuns runAll_;
  bool drawsRandom_;
  const std::string &norms_;
  std::vector<std::string> paths_;
  int64_t flopsPerSample_ = 0;
  std::vector<Node *> related_, averages_;
  std::string averagePath_, untried_;
};

} // namespace

void noteSampleRelations(Model &model, BatchDiscovery &found, PassContext &context,
                         ModelRuns runAll, bool drawsRandom, const std::string &norms) {
  if (!found.notCut.empty() || !found.trial.runs() || !found.trial.partsRefusal.empty())
    return;
  if (const std::optional<BatchForms> forms = BatchForms::of(model, found.trial))
    Noter(model, found, context, runAll, drawsRandom, norms).note(*forms);
}

} // namespace pipec
