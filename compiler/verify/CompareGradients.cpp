#include "compiler/verify/CompareGradients.h"

#include "compiler/verify/PlanGradientSums.h"
#include "ir/autograd/TrainingSettings.h"
#include "ir/batch/CutTrial.h"
#include "ir/batch/MicroBatch.h"
#include "ir/plan/OutputPath.h"
#include "ir/plan/PlanNames.h"
#include "ir/support/Check.h"
#include "ir/support/Try.h"
#include "ir/text/TensorText.h"
#include "ir/values/CompareValues.h"

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full_like.h>

#include <cmath>
#include <numeric>
#include <set>
#include <utility>

namespace pipec {

namespace {

double relativeL2(const at::Tensor &expected, const at::Tensor &actual) {
  const at::ScalarType wideType = expected.is_complex() ? at::kComplexDouble : at::kDouble;
  const at::Tensor wide = expected.to(wideType);
  const double norm = wide.abs().norm().item<double>();
  const double off = actual.to(wideType).sub(wide).abs().norm().item<double>();
  return norm > 0 ? off / norm : off;
}

bool isSame(const at::Tensor &expected, const ParameterGradient &found) {
  if (!expected.defined() || !found.gradient.defined())
    return expected.defined() == found.gradient.defined();
  if (compare(expected, found.gradient, 0.0, 0.0).equal)
    return true;
  return found.stages > 1 && expected.sizes() == found.gradient.sizes() &&
         expected.dtype() == found.gradient.dtype() &&
         relativeL2(expected, found.gradient) <= tiedTolerance(expected.scalar_type());
}

std::string difference(const at::Tensor &expected, const at::Tensor &found) {
  if (!expected.defined())
    return "expected none, got one";
  if (!found.defined())
    return "expected one, got none";
  return compare(expected, found, 0.0, 0.0).firstDifference;
}

/// Where the backward of a call starts: the mean of a step weighs its micro-batches by samples; of
/// a pair (sum, count) each counts fully, and the sum of gradients is divided later.
at::Tensor rootScale(const ExampleRun &run, size_t call, bool isPair, const at::Tensor &loss) {
  const int64_t samples = std::accumulate(run.batch.begin(), run.batch.end(), int64_t(0));
  const bool isPart = !isPair && samples > 0;
  const double part =
      isPart ? static_cast<double>(run.batch[call]) / static_cast<double>(samples) : 1;
  return at::full_like(loss, part);
}

/// Bytes of parameters up to which the gradients of all runs are kept for the comparison with split
/// backwards; above it those of the example.
constexpr int64_t kKeptGradients = int64_t(256) << 20;

constexpr int64_t kMostBytesOfParts = int64_t(1) << 30; // three times its gradients are kept
constexpr double kEqualLosses = 1e-4;
constexpr double kPartsOff = 1e-3;   // rounding is far below, but for dtypes of two bytes
constexpr double kPartsNoise = 1e-5; // of the norm of all gradients

at::Tensor wideForm(const at::Tensor &gradient) {
  const at::Tensor dense =
      gradient.layout() == at::kStrided ? gradient : gradient.to_dense(); // embedding(sparse=True)
  return dense.to(dense.is_complex() ? at::kComplexDouble : at::kDouble);
}

/// The gradient of a parameter in a whole batch and in its parts.
struct PartsOfGradient {
  std::string name;
  double whole = 0, parts = 0, off = 0; // norms; off: of the difference
};

PartsOfGradient partsOf(const NamedGradient &whole, size_t number,
                        llvm::ArrayRef<SourceStep> parts) {
  PartsOfGradient result{whole.names.front()};
  at::Tensor sum;
  for (const SourceStep &part : parts)
    if (const at::Tensor &gradient = part.gradients[number].gradient; gradient.defined())
      sum = sum.defined() ? sum.add(wideForm(gradient)) : wideForm(gradient);
  const at::Tensor all = whole.gradient.defined() ? wideForm(whole.gradient) : at::Tensor();
  if (all.defined())
    result.whole = all.abs().norm().item<double>();
  if (sum.defined())
    result.parts = sum.abs().norm().item<double>();
  result.off = all.defined() && sum.defined() ? all.sub(sum).abs().norm().item<double>()
                                              : std::max(result.whole, result.parts);
  return result;
}

/// Empty: the gradients of the parts add up to that of the whole.
std::string warningOnParts(const SourceStep &whole, llvm::ArrayRef<SourceStep> parts) {
  const at::NoGradGuard noGrad;
  std::vector<PartsOfGradient> all;
  double total = 0;
  for (size_t i = 0; i < whole.gradients.size(); ++i) {
    const at::Tensor &gradient = whole.gradients[i].gradient;
    if (gradient.defined() && gradient.element_size() < 4)
      continue;
    all.push_back(partsOf(whole.gradients[i], i, parts));
    total = std::hypot(total, all.back().whole);
  }
  const PartsOfGradient *worst = nullptr;
  for (const PartsOfGradient &one : all)
    if (one.off > kPartsOff * one.whole && one.off > kPartsNoise * total &&
        (!worst || one.off > worst->off))
      worst = &one;
  if (!worst)
    return "";
  return fmt::format("gradients of a step depend on the number of micro-batches, although the loss "
                     "does not: that of {} has the norm {:.3g} for a batch of {} samples, and "
                     "{:.3g} for micro-batches of {} and {}, as where a term is divided by a "
                     "detached value or embedding(scale_grad_by_freq=True) counts in one call",
                     worst->name, worst->whole, kWholeSamples, worst->parts, kPartSamples[0],
                     kPartSamples[1]);
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
llvm::Error internal(llvm::Error error) {
  ErrorText text = describe(std::move(error));
  // Refusals name the model's own code.
  const bool isOurs = text.code == ExitCode::Usage || text.code == ExitCode::Other;
  return withContext(makeError(isOurs ? ExitCode::Internal : text.code, text.message, text.help),
                     "training the stages on the example inputs");
}

} // namespace

GradientComparison::GradientComparison(const std::string &path, const SourceMode &mode,
                                       const std::string &directory, Plan &plan,
                                       const LossLeaves &loss)
    : path_(path), mode_(mode), directory_(directory), plan_(plan), loss_(loss) {
  result_.whyWhole.resize(plan.stages.size());
}

llvm::Error GradientComparison::compareWhole(llvm::ArrayRef<ExampleRun> runs) {
  const TrainingSettings settings;
  if (plan_.training->loss != loss_.loss || plan_.training->count != loss_.count)
    return failf(ExitCode::Internal,
                 "the stages do not have the gradients of the model: the backward is to start at "
                 "{}, and starts at {}",
                 lossWords(loss_), lossWords({plan_.training->loss, plan_.training->count}));
  const std::vector<bool> none(plan_.stages.size(), false);
  const bool keepsAll = parameterBytes(plan_) <= kKeptGradients;
  for (size_t r = runs.size(); r-- > 0;) {
    std::vector<SourceStep> expected = TRY(trainSource(runs[r]));
    TRY(trainStages(runs[r], expected, none, /*followsFlags=*/false));
    if (r == 0 || keepsAll)
      compared_.push_back({runs[r], std::move(expected)});
  }
  return llvm::Error::success();
}

llvm::Error GradientComparison::compareSplit() {
  const TrainingSettings settings;
  for (const auto &[run, expected] : llvm::reverse(compared_)) { // the example first
    std::vector<bool> split;
    for (const std::string &why : result_.whyWhole)
      split.push_back(why.empty());
    TRY(trainStages(run, expected, std::move(split), /*followsFlags=*/true));
    ++result_.splitRuns;
  }
  return llvm::Error::success();
}

std::string GradientComparison::lossWords(const LossLeaves &loss) const {
  const std::string path = outputPath(plan_.signature, loss.loss);
  return loss.count ? fmt::format("the sum {} of all micro-batches, divided by their count {}",
                                  path, outputPath(plan_.signature, *loss.count))
                    : fmt::format("the mean {} over micro-batches", path);
}

/// Of a step with the calls of the run as micro-batches; of a pair, the sum.
double GradientComparison::lossOf(const ExampleRun &run) const {
  double total = 0;
  for (size_t c = 0; c < run.calls.size(); ++c) {
    const at::Tensor &loss = run.leaves[c][loss_.loss].toTensor();
    total += loss.item<double>() * rootScale(run, c, loss_.count.has_value(), loss).item<double>();
  }
  return total;
}

/// Those of compareWhole, if it kept them.
llvm::Expected<std::vector<SourceStep>>
GradientComparison::sourceSteps(const ExampleRun &run) const {
  for (const auto &[compared, steps] : compared_)
    if (isSameRun(compared, run))
      return steps;
  return trainSource(run);
}

void GradientComparison::compareParts(llvm::ArrayRef<ExampleRun> runs) {
  const auto parts = llvm::find_if(runs, [](const ExampleRun &run) {
    return !run.otherSizes && llvm::ArrayRef<int64_t>(run.batch).equals(kPartSamples);
  });
  if (parts == runs.begin() || parts == runs.end() || parameterBytes(plan_) > kMostBytesOfParts)
    return;
  const ExampleRun &whole = *std::prev(parts);
  if (whole.otherSizes || whole.batch != std::vector<int64_t>{kWholeSamples})
    return;
  const double loss = lossOf(whole);
  if (!(std::abs(lossOf(*parts) - loss) <= kEqualLosses * std::abs(loss))) // false for NaN
    return;
  const TrainingSettings settings;
  llvm::Expected<std::vector<SourceStep>> ofWhole = sourceSteps(whole);
  llvm::Expected<std::vector<SourceStep>> ofParts = sourceSteps(*parts);
  if (!ofWhole || !ofParts) { // what was asked for has been compared
    llvm::consumeError(ofWhole.takeError());
    llvm::consumeError(ofParts.takeError());
    return;
  }
  if (std::string warning = warningOnParts(ofWhole->front(), *ofParts); !warning.empty())
    result_.warnings.push_back(std::move(warning));
}

ComparedGradients GradientComparison::take() { return std::move(result_); }

llvm::Expected<std::vector<SourceStep>>
GradientComparison::trainSource(const ExampleRun &run) const {
  SourceTrainer source = TRY(SourceTrainer::load(path_, mode_));
  std::vector<SourceStep> steps;
  for (const std::vector<c10::IValue> &call : run.calls) {
    at::manual_seed(kExampleSeed);
    const size_t number = steps.size();
    llvm::Expected<SourceStep> step = source.run(
        plan_.signature, ownCopies(call), loss_.loss,
        rootScale(run, number, loss_.count.has_value(), run.leaves[number][loss_.loss].toTensor()));
    if (!step)
      return withContext(step.takeError(), "--train");
    steps.push_back(std::move(*step));
  }
  return steps;
}

/// If the backward of a stage turns out not to be splittable, the stage is noted and the run is
/// repeated with its whole backward, which may add gradients in another order.
llvm::Error GradientComparison::trainStages(const ExampleRun &run,
                                            llvm::ArrayRef<SourceStep> expected,
                                            std::vector<bool> split, bool followsFlags) {
  PIPEC_ASSERT(plan_.training && expected.size() == run.calls.size(),
               "a plan of a training, and a step of the source for each call");
  const SerialWay way{split, plan_.training->recompute, followsFlags};
  SerialTrainer trainer = TRY(SerialTrainer::load(directory_, plan_, way));
  std::vector<SerialTrainer::InFlight> flights;
  bool again = false;
  for (size_t c = 0; c < run.calls.size(); ++c) {
    at::manual_seed(kExampleSeed);
    llvm::Expected<SerialTrainer::InFlight> flight = trainer.forward(ownCopies(run.calls[c]));
    if (!flight)
      return internal(flight.takeError());
    const TrainedMicroBatch &made = flight->result;
    for (size_t s = 0; s < split.size(); ++s)
      if (split[s] && !made.whyWhole[s].empty()) {
        result_.whyWhole[s] = made.whyWhole[s];
        split[s] = false;
        again = true;
      }
    if (again)
      break;
    TRY(compareForward(run, c, expected[c], made));
    if (!followsFlags)
      noteFlags(made);
    flights.push_back(std::move(*flight));
  }
  if (again)
    return trainStages(run, expected, std::move(split), followsFlags);
  for (size_t c = 0; c < run.calls.size(); ++c) {
    const at::Tensor &loss = run.leaves[c][plan_.training->loss].toTensor();
    llvm::Expected<TrainedMicroBatch> step =
        trainer.backward(std::move(flights[c]), plan_.training->loss,
                         rootScale(run, c, plan_.training->count.has_value(), loss));
    if (!step)
      return internal(step.takeError());
    TRY(compareGradients(run, c, expected[c], *step, llvm::is_contained(split, true)));
  }
  return llvm::Error::success();
}

void GradientComparison::noteFlags(const TrainedMicroBatch &step) {
  for (size_t c = 0; c < plan_.channels.size(); ++c)
    if (const c10::IValue &value = step.sent[c];
        plan_.channels[c].tensor.known && plan_.channels[c].kind == Channel::Kind::Activation &&
        value.isTensor() && value.toTensor().defined())
      plan_.channels[c].tensor.requiresGrad |= value.toTensor().requires_grad();
}

llvm::Error GradientComparison::compareForward(const ExampleRun &run, size_t call,
                                               const SourceStep &source,
                                               const TrainedMicroBatch &stages) {
  for (size_t l = 0; l < source.leaves.size(); ++l)
    if (const Comparison same = compare(source.leaves[l], stages.leaves[l], 0.0, 0.0); !same.equal)
      return failf(ExitCode::Internal,
                   "the stages do not compute what the model computes in training: result {} at "
                   "batch {}: {}",
                   outputPath(plan_.signature, l), run.batch[call], same.firstDifference);
  if (const double loss = source.leaves[loss_.loss].toTensor().item<double>();
      !std::isfinite(loss) && result_.warnings.empty())
    result_.warnings.push_back(
        fmt::format("the loss of the example is {}, so the comparison of gradients shows little; "
                    "pass --inputs with a finite loss",
                    loss));
  return llvm::Error::success();
}

llvm::Error GradientComparison::compareGradients(const ExampleRun &run, size_t call,
                                                 const SourceStep &source,
                                                 const TrainedMicroBatch &stages, bool isSplit) {
  size_t gradients = 0, tied = 0;
  for (const NamedGradient &expected : source.gradients) {
    const ParameterGradient found = gradientOf(plan_, expected.names, stages);
    if (!isSame(expected.gradient, found))
      return failf(ExitCode::Internal,
                   "the stages do not have the gradients of the model: {} at batch {}, {} "
                   "backward: {}",
                   expected.names.front(), run.batch[call], isSplit ? "split" : "whole",
                   difference(expected.gradient, found.gradient));
    gradients += expected.gradient.defined();
    if (found.stages < 2)
      continue;
    ++tied;
    const at::ScalarType dtype = found.gradient.scalar_type();
    result_.tolerances[TRY(dtypeText(dtype))] = tiedTolerance(dtype);
  }
  result_.gradients = std::max(result_.gradients, gradients);
  result_.tied = std::max(result_.tied, tied);
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
