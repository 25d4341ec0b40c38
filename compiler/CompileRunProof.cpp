// What a compile proves of the files that it wrote, and what it tests by running them.
#include "compiler/CompileRun.h"
#include "compiler/StageRuns.h"
#include "compiler/UncertainGradients.h"
#include "compiler/verify/CompareGradients.h"
#include "ir/plan/WholeBackwards.h"
#include "ir/support/Try.h"
#include "ir/support/Words.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <ATen/core/Tensor.h>

#include <set>

namespace pipec {

namespace {

/// "5 runs with batches of 2, 3 and 5"
std::string countedRuns(const std::vector<ExampleRun> &runs) {
  std::set<int64_t> sizes;
  size_t count = 0;
  for (const ExampleRun &run : runs) {
    count += run.calls.size();
    sizes.insert(run.batch.begin(), run.batch.end());
  }
  sizes.erase(0); // nothing is cut
  std::string text;
  for (int64_t size : sizes)
    text += (text.empty()              ? " with batches of "
             : size == *sizes.rbegin() ? " and "
                                       : ", ") +
            std::to_string(size);
  const bool others = llvm::any_of(runs, [](const ExampleRun &run) { return run.otherSizes; });
  return counted(count, "run") + text + (others ? ", and at other sizes" : "");
}

/// "1e-6", "1e-6 (float32) and 0.0625 (bfloat16)"
std::string toleranceText(const std::map<std::string, double> &byDtype) {
  std::vector<std::string> texts;
  for (const auto &[dtype, tolerance] : byDtype) {
    const std::string number = tolerance == 1e-6 ? "1e-6" : fmt::format("{}", tolerance);
    texts.push_back(byDtype.size() > 1 ? fmt::format("{} ({})", number, dtype) : number);
  }
  return llvm::join(texts, " and ");
}

} // namespace

llvm::Error CompileRun::prove(Staged &staged, Plan &plan, const ArtifactWriter &writer) {
  const ReadBack large = options_.verify == Verify::Run ? ReadBack::All : ReadBack::Ends;
  std::map<std::string, at::Tensor> fromMemory; // weights that have been compared
  if (options_.verify != Verify::None) {
    phases_.begin("reading the stages back");
    fromMemory = weightsNotReadBack(staged.source, large);
    TRY(validate(writer.directory(), plan, staged.source, large));
    report_.proved.push_back(whatWasProved(staged.source, large));
    phases_.end("validate");
  }
  const std::vector<ExampleRun> runs = runsToRepeat(std::move(staged.runs), plan);
  if (runs.empty()) {
    if (loss_)
      report_.notes.push_back("gradients were not compared: there are no example inputs; pass "
                              "--inputs");
    return llvm::Error::success();
  }
  TRY(runStages(writer.directory(), plan, runs, fromMemory, phases_.progress()));
  report_.tested.push_back(
      "the stages give the same bits as the source on the example inputs, in " + countedRuns(runs));
  phases_.end("run the stages on the example");
  if (loss_)
    noteUncertainGradients(staged.model, plan);
  TRY(proveGradients(runs, staged.model, plan, writer));
  phases_.begin("writing the plan");
  return llvm::Error::success();
}

llvm::Error CompileRun::proveGradients(const std::vector<ExampleRun> &runs,
                                       const StagedModel &stages, Plan &plan,
                                       const ArtifactWriter &writer) {
  if (!loss_)
    return llvm::Error::success();
  phases_.begin("comparing gradients");
  GradientComparison comparison(frontEnd_.source(), writer.directory(), stages, plan, *loss_,
                                *hook_);
  const std::vector<ExampleRun> trained = runsToTrain(runs);
  TRY(comparison.compareWhole(trained));
  TRY(hook_->afterFlags(plan));
  TRY(comparison.compareSplit());
  const bool isWarnedOf = loss_->loss < report_.results.size() &&
                          report_.results[loss_->loss].equal == ResultCheck::Equal::No;
  if (!isWarnedOf)
    comparison.compareParts(runs, norms_);
  const ComparedGradients compared = comparison.take();
  report_.tested.push_back(
      fmt::format("the loss and {} have the same bits as the source's, in {}, with {}",
                  counted(compared.gradients, "gradient"), countedRuns(trained),
                  !options_.splitBackward                ? "whole backwards"
                  : compared.splitRuns == trained.size() ? "whole and split backwards"
                                                         : "split backwards in the first"));
  if (compared.tied > 0)
    report_.tested.back() +=
        fmt::format("; {} summed over several stages: equal within {}",
                    counted(compared.tied, "gradient"), toleranceText(compared.tolerances));
  if (options_.splitBackward)
    plan.training->whyWhole = compared.whyWhole;
  for (std::string &sentence : wholeBackwards(plan))
    report_.notes.push_back(std::move(sentence));
  if (compared.gradients == 0)
    return makeError(ExitCode::Usage,
                     "--train: expected a loss that has gradients, got one that no parameter of "
                     "the model leads to",
                     "turn requires_grad of the parameters on before saving the model, and compute "
                     "the loss with gradients");
  report_.warnings.insert(report_.warnings.end(), compared.warnings.begin(),
                          compared.warnings.end());
  phases_.end("compare gradients");
  return llvm::Error::success();
}

} // namespace pipec
