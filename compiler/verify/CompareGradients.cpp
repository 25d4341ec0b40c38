#include "compiler/verify/CompareGradients.h"

#include "compiler/verify/SourceGradients.h"
#include "ir/autograd/GradSum.h"
#include "ir/autograd/SerialTrainer.h"
#include "ir/autograd/TrainingSettings.h"
#include "ir/batch/MicroBatch.h"
#include "ir/plan/OutputPath.h"
#include "ir/support/Try.h"
#include "ir/values/Values.h"

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/ones_like.h>

#include <cmath>
#include <map>
#include <set>
#include <utility>

namespace pipec {

namespace {

/// Relative L2, see docs/training.md.
double tiedTolerance(at::ScalarType dtype) {
  return dtype == at::kHalf ? 8 * 0x1p-10 : dtype == at::kBFloat16 ? 8 * 0x1p-7 : 1e-6;
}

/// The gradients of the stages by the names of the source's tensors.
class GradientsByName {
public:
  GradientsByName(const Plan &plan, const SerialTrainer &trainer, const TrainedMicroBatch &step) {
    for (size_t s = plan.stages.size(); s-- > 0;) // the engine comes to the last use first
      for (size_t a = 0; a < plan.stages[s].attributes.size(); ++a)
        if (trainer.attribute(s, a).isTensor() && !step.gradients[s][a].empty())
          add(plan.stages[s].attributes[a], step.gradients[s][a].front());
  }

  struct Sum {
    at::Tensor gradient;
    size_t stages = 0; // that a gradient came from
  };
  /// The sum for a tensor with these names.
  Sum of(llvm::ArrayRef<std::string> names) const {
    Sum sum;
    std::map<size_t, at::Tensor> byOrder; // a stage may know it by another name
    for (const std::string &name : names)
      if (const auto found = found_.find(name); found != found_.end())
        for (const auto &[order, gradient] : found->second)
          byOrder.emplace(order, gradient);
    for (const auto &[order, gradient] : byOrder) {
      addGradient(sum.gradient, gradient);
      ++sum.stages;
    }
    return sum;
  }

private:
  void add(const StageAttribute &attribute, const at::Tensor &gradient) {
    if (!gradient.defined())
      return;
    found_[attribute.name].emplace_back(count_, gradient);
    for (const std::string &other : attribute.otherNames)
      found_[other].emplace_back(count_, gradient);
    ++count_;
  }

  size_t count_ = 0;
  std::map<std::string, std::vector<std::pair<size_t, at::Tensor>>> found_; // in order of count_
};

double relativeL2(const at::Tensor &expected, const at::Tensor &actual) {
  const at::ScalarType wideType = expected.is_complex() ? at::kComplexDouble : at::kDouble;
  const at::Tensor wide = expected.to(wideType);
  const double norm = wide.abs().norm().item<double>();
  const double off = actual.to(wideType).sub(wide).abs().norm().item<double>();
  return norm > 0 ? off / norm : off;
}

bool isSame(const at::Tensor &expected, const GradientsByName::Sum &found) {
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

class GradientComparison {
public:
  GradientComparison(const std::string &path, const SourceMode &mode, const std::string &directory,
                     Plan &plan, size_t loss)
      : path_(path), mode_(mode), directory_(directory), plan_(plan), loss_(loss),
        whyWhole_(plan.stages.size()) {}

  llvm::Expected<ComparedGradients> compareAll(llvm::ArrayRef<ExampleRun> runs) {
    TrainingSettings settings;
    for (const ExampleRun &run : runs)
      if (llvm::Error error = compareRun(run))
        return std::move(error);
    result_.whyWhole = whyWhole_;
    return std::move(result_);
  }

private:
  llvm::Error compareRun(const ExampleRun &run) {
    std::vector<SourceStep> expected = TRY(trainSource(run));
    const std::vector<bool> none(plan_.stages.size(), false);
    if (llvm::Error error = trainStages(run, expected, none))
      return error;
    if (std::exchange(hasSplit_, true))
      return llvm::Error::success();
    std::vector<bool> split;
    for (const std::string &why : whyWhole_)
      split.push_back(why.empty());
    if (llvm::Error error = trainStages(run, expected, split))
      return error;
    return llvm::Error::success();
  }

  llvm::Expected<std::vector<SourceStep>> trainSource(const ExampleRun &run) {
    SourceTrainer source = TRY(SourceTrainer::load(path_, mode_));
    std::vector<SourceStep> steps;
    for (const std::vector<c10::IValue> &call : run.calls) {
      at::manual_seed(kExampleSeed);
      llvm::Expected<SourceStep> step =
          source.run(plan_.signature, ownCopies(call), loss_, scale(run, steps.size()));
      if (!step)
        return withContext(step.takeError(), "--train");
      steps.push_back(std::move(*step));
    }
    return steps;
  }

  at::Tensor scale(const ExampleRun &run, size_t call) const {
    return at::ones_like(run.leaves[call][loss_].toTensor());
  }

  /// Stages that turn out not to be splittable are noted, and the run is made again without them:
  /// what a backward of theirs sums in which order is another question.
  llvm::Error trainStages(const ExampleRun &run, llvm::ArrayRef<SourceStep> expected,
                          std::vector<bool> split) {
    SerialTrainer trainer = TRY(SerialTrainer::load(directory_, plan_));
    bool again = false;
    for (size_t c = 0; c < run.calls.size() && !again; ++c) {
      at::manual_seed(kExampleSeed);
      llvm::Expected<TrainedMicroBatch> step =
          trainer.run(ownCopies(run.calls[c]), loss_, scale(run, c), split);
      if (!step)
        return withContext(internal(step.takeError()), "training the stages on the example inputs");
      for (size_t s = 0; s < split.size(); ++s)
        if (split[s] && !step->whyWhole[s].empty()) {
          whyWhole_[s] = step->whyWhole[s];
          split[s] = false;
          again = true;
        }
      noteFlags(*step);
      const bool isSplit = llvm::is_contained(split, true);
      if (!again)
        if (llvm::Error error = compareStep(expected[c], trainer, *step, run.batch[c], isSplit))
          return error;
    }
    return again && llvm::is_contained(split, true) ? trainStages(run, expected, split)
                                                    : llvm::Error::success();
  }

  /// The source trained on the same inputs: this is our fault, not theirs.
  static llvm::Error internal(llvm::Error error) {
    ErrorText text = describe(std::move(error));
    // Refusals name the model's own code.
    const bool isOurs = text.code == ExitCode::Usage || text.code == ExitCode::Other;
    return makeError(isOurs ? ExitCode::Internal : text.code, text.message, text.help);
  }

  void noteFlags(const TrainedMicroBatch &step) {
    for (size_t c = 0; c < plan_.channels.size(); ++c)
      if (const c10::IValue &value = step.sent[c];
          plan_.channels[c].tensor.known && plan_.channels[c].kind == Channel::Kind::Activation &&
          value.isTensor() && value.toTensor().defined())
        plan_.channels[c].tensor.requiresGrad |= value.toTensor().requires_grad();
  }

  llvm::Error compareStep(const SourceStep &source, const SerialTrainer &trainer,
                          const TrainedMicroBatch &stages, int64_t batch, bool isSplit) {
    for (size_t l = 0; l < source.leaves.size(); ++l)
      if (const Comparison same = compare(source.leaves[l], stages.leaves[l], 0.0, 0.0);
          !same.equal)
        return failf(ExitCode::Internal,
                     "the stages do not compute what the model computes in training: result {} at "
                     "batch {}: {}",
                     outputPath(plan_.signature, l), batch, same.firstDifference);
    if (const double loss = source.leaves[loss_].toTensor().item<double>();
        !std::isfinite(loss) && result_.warnings.empty())
      result_.warnings.push_back(
          fmt::format("the loss of the example is {}, so the comparison of gradients shows little; "
                      "pass --inputs with a finite loss",
                      loss));
    const GradientsByName found(plan_, trainer, stages);
    size_t gradients = 0, tied = 0;
    for (const NamedGradient &expected : source.gradients) {
      const GradientsByName::Sum sum = found.of(expected.names);
      if (!isSame(expected.gradient, sum))
        return failf(ExitCode::Internal,
                     "the stages do not have the gradients of the model: {} at batch {}, {} "
                     "backward: {}",
                     expected.names.front(), batch, isSplit ? "split" : "whole",
                     difference(expected.gradient, sum.gradient));
      gradients += expected.gradient.defined();
      tied += sum.stages > 1;
    }
    result_.gradients = std::max(result_.gradients, gradients);
    result_.tied = std::max(result_.tied, tied);
    return llvm::Error::success();
  }

  const std::string &path_;
  const SourceMode &mode_;
  const std::string &directory_;
  Plan &plan_;
  size_t loss_;
  std::vector<std::string> whyWhole_;
  bool hasSplit_ = false; // some run, with split backwards
  ComparedGradients result_;
};

} // namespace

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

llvm::Expected<ComparedGradients> compareGradients(const std::string &path, const SourceMode &mode,
                                                   const std::string &directory, Plan &plan,
                                                   size_t loss, llvm::ArrayRef<ExampleRun> runs) {
  return GradientComparison(path, mode, directory, plan, loss).compareAll(runs);
}

} // namespace pipec
