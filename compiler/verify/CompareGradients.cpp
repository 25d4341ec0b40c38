#include "compiler/verify/CompareGradients.h"

#include "compiler/ParallelRuns.h"
#include "compiler/verify/CompareParts.h"
#include "compiler/verify/PlanGradientSums.h"
#include "compiler/verify/WithoutDerivative.h"
#include "ir/NodeInfo.h"
#include "ir/autograd/TrainingSettings.h"
#include "ir/batch/MicroBatch.h"
#include "ir/plan/OutputPath.h"
#include "ir/plan/PlanNames.h"
#include "ir/support/Check.h"
#include "ir/support/Try.h"
#include "ir/text/TensorText.h"
#include "ir/values/CompareValues.h"
#include "llvm/ADT/StringExtras.h"

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/jit/ir/ir.h>

#include <cmath>
#include <set>
#include <utility>

namespace pipec {

namespace {

std::string difference(const at::Tensor &expected, const at::Tensor &found) {
  if (!expected.defined())
    return "expected none, got one";
  if (!found.defined())
    return "expected one, got none";
  return compare(expected, found, 0.0, 0.0).firstDifference;
}

/// Whether they are copies of one run: the arguments of all calls are the same objects.
bool isSameRun(const ExampleRun &a, const ExampleRun &b) {
  return a.batch == b.batch && a.otherSizes == b.otherSizes && a.calls.size() == b.calls.size() &&
         llvm::all_of(llvm::zip(a.calls, b.calls), [](const auto &calls) {
           const auto &[one, other] = calls;
           return std::equal(one.begin(), one.end(), other.begin(), other.end(),
                             [](const c10::IValue &x, const c10::IValue &y) { return x.is(y); });
         });
}

/// The source trained on the same inputs: this is our fault, not theirs.
llvm::Error internal(llvm::Error error, const StagedModel &stages) {
  ErrorText text = describe(std::move(error));
  if (const std::vector<std::string> means = withoutDerivative(text.message, stages);
      !means.empty())
    text.message += fmt::format(" (in the stages: {})", llvm::join(means, ", "));
  // Refusals name the model's own code.
  const bool isOurs = text.code == ExitCode::Usage || text.code == ExitCode::Other;
  return withContext(makeError(isOurs ? ExitCode::Internal : text.code, text.message, text.help),
                     "training the stages on the example inputs");
}

/// Random operators draw from one generator, so runs that draw happen one after the other.
size_t threadsFor(const StagedModel &stages) {
  const bool mayDraw = llvm::any_of(stages.stages, [](const Stage &stage) {
    return anyNodeInside(stage.graph->block(), mayUseGenerator);
  });
  return mayDraw ? 1 : threadsForRuns();
}

} // namespace

GradientComparison::GradientComparison(SourceCopies &source, const std::string &directory,
                                       const StagedModel &stages, Plan &plan,
                                       const LossLeaves &loss, const CompileHook &hook)
    : source_(source), directory_(directory), stages_(stages), plan_(plan), loss_(loss),
      hook_(hook), threads_(threadsFor(stages)) {
  result_.whyWhole.resize(stages.stages.size());
}

llvm::Error GradientComparison::compareWhole(llvm::ArrayRef<ExampleRun> runs) {
  if (plan_.training->loss != loss_.loss || plan_.training->count != loss_.count)
    return failf(ExitCode::Internal,
                 "the stages do not have the gradients of the model: the backward is to start at "
                 "{}, and starts at {}",
                 lossWords(loss_), lossWords({plan_.training->loss, plan_.training->count}));
  files_ = TRY(SerialStages::load(directory_, plan_));
  const std::vector<bool> none(plan_.stages.size(), false);
  const bool keepsAll = parameterBytes(plan_) <= hook_.keptGradients();
  compared_.assign(keepsAll ? runs.size() : 1, {});
  return compareAll(runs, [&](size_t r, OfRun &found) -> llvm::Error {
    std::vector<SourceStep> expected = TRY(trainSource(runs[r]));
    TRY(trainStages(runs[r], expected, none, /*followsFlags=*/false, found));
    if (r < compared_.size())
      compared_[r] = {runs[r], std::move(expected)};
    return llvm::Error::success();
  });
}

llvm::Error GradientComparison::compareSplit() {
  std::vector<bool> split;
  for (const auto &[asked, found] : llvm::zip(plan_.training->whyWhole, result_.whyWhole))
    split.push_back(asked.empty() && found.empty());
  std::vector<ExampleRun> runs;
  for (const auto &[run, steps] : compared_)
    runs.push_back(run);
  TRY(compareAll(runs, [&](size_t r, OfRun &found) {
    return trainStages(runs[r], compared_[r].second, split, /*followsFlags=*/true, found);
  }));
  result_.splitRuns = runs.size();
  return llvm::Error::success();
}

void GradientComparison::compareParts(llvm::ArrayRef<ExampleRun> runs, const std::string &norms) {
  const TrainingSettings settings;
  std::string warning = warningOnParts(runs, plan_, loss_, norms,
                                       [&](const ExampleRun &run) { return sourceSteps(run); });
  if (!warning.empty())
    result_.warnings.push_back(std::move(warning));
}

ComparedGradients GradientComparison::take() { return std::move(result_); }

/// Calls `compare` for each run, on several threads, and adds what they found in the order of the
/// runs.
llvm::Error
GradientComparison::compareAll(llvm::ArrayRef<ExampleRun> runs,
                               llvm::function_ref<llvm::Error(size_t, OfRun &)> compare) {
  std::vector<OfRun> found(runs.size());
  std::vector<int64_t> elements;
  for (const ExampleRun &run : runs)
    elements.push_back(countElementsOfCalls(run.calls));
  TRY(forEachParallel(elements, threads_, [&](size_t r) {
    const TrainingSettings settings;
    found[r].compared.whyWhole.resize(plan_.stages.size());
    found[r].requiresGrad.resize(plan_.channels.size());
    return compare(r, found[r]);
  }));
  for (OfRun &one : found)
    add(one);
  return llvm::Error::success();
}

void GradientComparison::add(OfRun &found) {
  ComparedGradients &one = found.compared;
  result_.gradients = std::max(result_.gradients, one.gradients);
  result_.tied = std::max(result_.tied, one.tied);
  result_.tolerances.merge(one.tolerances);
  for (size_t s = 0; s < plan_.stages.size(); ++s)
    if (result_.whyWhole[s].empty())
      result_.whyWhole[s] = std::move(one.whyWhole[s]);
  if (result_.warnings.empty()) // of several losses that are not finite, one says enough
    result_.warnings = std::move(one.warnings);
  for (size_t c = 0; c < plan_.channels.size(); ++c)
    plan_.channels[c].tensor.requiresGrad |= found.requiresGrad[c];
}

std::string GradientComparison::lossWords(const LossLeaves &loss) const {
  const std::string path = outputPath(plan_.signature, loss.loss);
  return loss.count ? fmt::format("the sum {} of all micro-batches, divided by their count {}",
                                  path, outputPath(plan_.signature, *loss.count))
                    : fmt::format("the mean {} over micro-batches", path);
}

/// Those of compareWhole, if it kept them.
llvm::Expected<std::vector<SourceStep>>
GradientComparison::sourceSteps(const ExampleRun &run) const {
  for (const auto &[compared, steps] : compared_)
    if (isSameRun(compared, run))
      return steps;
  return trainSource(run);
}

llvm::Expected<std::vector<SourceStep>>
GradientComparison::trainSource(const ExampleRun &run) const {
  return pipec::trainSource(source_, plan_.signature, loss_, run);
}

/// If the backward of a stage turns out not to be splittable, the stage is noted and the run is
/// repeated with its whole backward, which may add gradients in another order.
llvm::Error GradientComparison::trainStages(const ExampleRun &run,
                                            llvm::ArrayRef<SourceStep> expected,
                                            std::vector<bool> split, bool followsFlags,
                                            OfRun &found) const {
  PIPEC_ASSERT(plan_.training && expected.size() == run.calls.size(),
               "a plan of a training, and a step of the source for each call");
  PIPEC_ASSERT(files_, "compareWhole() first");
  const SerialWay way{split, plan_.training->recompute, followsFlags};
  std::vector<StageModule> stages = TRY(files_->copy());
  SerialTrainer trainer(plan_, std::move(stages), way);
  std::vector<SerialTrainer::InFlight> flights;
  bool again = false;
  for (size_t c = 0; c < run.calls.size(); ++c) {
    at::manual_seed(kExampleSeed);
    llvm::Expected<SerialTrainer::InFlight> flight = trainer.forward(ownCopies(run.calls[c]));
    if (!flight)
      return internal(flight.takeError(), stages_);
    const TrainedMicroBatch &made = flight->result;
    for (size_t s = 0; s < split.size(); ++s)
      if (split[s] && !made.whyWhole[s].empty()) {
        found.compared.whyWhole[s] = made.whyWhole[s];
        split[s] = false;
        again = true;
      }
    if (again)
      break;
    TRY(compareForward(run, c, expected[c], made, found));
    if (!followsFlags)
      noteFlags(made, found);
    flights.push_back(std::move(*flight));
  }
  if (again)
    return trainStages(run, expected, std::move(split), followsFlags, found);
  for (size_t c = 0; c < run.calls.size(); ++c) {
    const at::Tensor &loss = run.leaves[c][plan_.training->loss].toTensor();
    const at::Tensor scale = rootScale(run, c, plan_.training->count.has_value(), loss);
    llvm::Expected<TrainedMicroBatch> step = trainer.backward(
        std::move(flights[c]), plan_.training->loss, hook_.rootOfStages(scale, run.calls.size()));
    if (!step)
      return internal(step.takeError(), stages_);
    TRY(compareGradients(run, c, expected[c], *step, llvm::is_contained(split, true), found));
  }
  return llvm::Error::success();
}

void GradientComparison::noteFlags(const TrainedMicroBatch &step, OfRun &found) const {
  for (size_t c = 0; c < plan_.channels.size(); ++c)
    if (const c10::IValue &value = step.sent[c];
        plan_.channels[c].tensor.known && plan_.channels[c].kind == Channel::Kind::Activation &&
        value.isTensor() && value.toTensor().defined())
      found.requiresGrad[c] = found.requiresGrad[c] || value.toTensor().requires_grad();
}

llvm::Error GradientComparison::compareForward(const ExampleRun &run, size_t call,
                                               const SourceStep &source,
                                               const TrainedMicroBatch &stages,
                                               OfRun &found) const {
  for (size_t l = 0; l < source.leaves.size(); ++l)
    if (const Comparison same = compare(source.leaves[l], stages.leaves[l], 0.0, 0.0); !same.equal)
      return failf(ExitCode::Internal,
                   "the stages do not compute what the model computes in training: result {} at "
                   "batch {}: {}",
                   outputPath(plan_.signature, l), run.batch[call], same.firstDifference);
  if (const double loss = source.leaves[loss_.loss].toTensor().item<double>();
      !std::isfinite(loss) && found.compared.warnings.empty())
    found.compared.warnings.push_back(
        fmt::format("the loss of the example is {}, so the comparison of gradients shows little; "
                    "pass --inputs with a finite loss",
                    std::isnan(loss) ? NAN : loss)); // without a sign
  return llvm::Error::success();
}

llvm::Error GradientComparison::compareGradients(const ExampleRun &run, size_t call,
                                                 const SourceStep &source,
                                                 const TrainedMicroBatch &stages, bool isSplit,
                                                 OfRun &found) const {
  size_t gradients = 0, tied = 0;
  for (const NamedGradient &expected : source.gradients) {
    const ParameterGradient sum = gradientOf(plan_, expected.names, stages);
    if (!isSameGradient(expected.gradient, sum))
      return failf(ExitCode::Internal,
                   "the stages do not have the gradients of the model: {} at batch {}, {} "
                   "backward: {}",
                   expected.names.front(), run.batch[call], isSplit ? "split" : "whole",
                   difference(expected.gradient, sum.gradient));
    gradients += expected.gradient.defined();
    if (!sum.isSum())
      continue;
    ++tied;
    const at::ScalarType dtype = sum.gradient.scalar_type();
    found.compared.tolerances[TRY(dtypeText(dtype))] = tiedTolerance(dtype);
  }
  found.compared.gradients = std::max(found.compared.gradients, gradients);
  found.compared.tied = std::max(found.compared.tied, tied);
  return llvm::Error::success();
}

std::vector<ExampleRun> runsToTrain(llvm::ArrayRef<ExampleRun> runs) {
  std::vector<ExampleRun> result;
  std::set<std::pair<bool, int64_t>> seen; // sizes
  for (const ExampleRun &run : runs) {
    bool isNew = false;
    for (int64_t size : run.batch)
      isNew |= seen.insert({run.otherSizes, size}).second;
    if (isNew)
      result.push_back(run);
  }
  return result;
}

} // namespace pipec
