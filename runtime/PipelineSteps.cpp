// The steps of a pipeline that trains: on a batch, on several, on micro-batches that were cut
// before.
#include "ir/support/Try.h"
#include "ir/values/ValueFiles.h"
#include "runtime/PipelineImpl.h"
#include "runtime/PipelineTraining.h"
#include "runtime/SplitCheck.h"
#include "runtime/training/NotFiniteInputs.h"
#include "runtime/training/SparseGradients.h"

#include <chrono>

namespace pipec {

namespace {

/// Adds the measurements of one run to those of its step.
void addStats(StepStats &sum, const StepStats &more) {
  const auto before = static_cast<double>(sum.makespanNs),
             now = static_cast<double>(more.makespanNs);
  const double all = std::max(1.0, before + now);
  sum.bubbleMakespan = (sum.bubbleMakespan * before + more.bubbleMakespan * now) / all;
  sum.bubbleLongestSpan = (sum.bubbleLongestSpan * before + more.bubbleLongestSpan * now) / all;
  sum.makespanNs += more.makespanNs;
  sum.stageBusyNs.resize(more.stageBusyNs.size());
  for (size_t s = 0; s < more.stageBusyNs.size(); ++s)
    sum.stageBusyNs[s] += more.stageBusyNs[s];
}

} // namespace

llvm::Error Pipeline::Impl::canStep() {
  if (!core->training)
    return makeError(ExitCode::Usage,
                     "step: expected a pipeline with training options, got one "
                     "without",
                     "set PipelineOptions::training, or call infer()");
  return usableAgain();
}

/// One run of the program per batch; numbers: of its micro-batches. Leaves of all are in the core's
/// data afterwards.
llvm::Error Pipeline::Impl::runBatches(llvm::ArrayRef<int64_t> numbers, StepStats *stats) {
  StepData &data = core->data;
  data.step = calls;
  data.runs.clear();
  data.beginLeaves(data.inputs.size(), core->artifact.plan.signature.leaves.size());
  StepStats all;
  int64_t begin = 0; // the first micro-batch of the run
  for (const int64_t &number : numbers) {
    TRY(prepareFor(number));
    data.runs.push_back({begin, number / replicas()});
    data.isLast = &number == &numbers.back();
    TRY(finishDevices()); // the caller's work on them may have made the inputs
    const auto start = std::chrono::steady_clock::now();
    TRY(runStep(data.inputs[begin]));
    TRY(finishDevices());
    if (stats) {
      StepStats one;
      measure(one, (std::chrono::steady_clock::now() - start) / std::chrono::nanoseconds(1));
      addStats(all, one);
    }
    begin += number;
  }
  if (stats)
    *stats = std::move(all);
  data.forgetInputs();
  return llvm::Error::success();
}

llvm::Expected<TrainedStep> Pipeline::Impl::step(BatchParts parts, llvm::ArrayRef<int64_t> numbers,
                                                 StepStats *stats) {
  TRY(checkAnySamples(parts));
  const TrainingPlan &plan = *core->artifact.plan.training;
  if (std::exchange(training->mustVerifySplit, false))
    TRY(checkSplitBackwards(core->artifact, parts.inputs.front()));
  core->data.inputs = std::move(parts.inputs);
  core->data.samples = std::move(parts.samples);
  TrainingData &data = core->data.training;
  data.scales = training->scalesOf(plan, core->data.samples, std::move(data.scales));
  const double learningRate = training->rates.at(calls);
  data.rateFactor = training->rates.factorAt(calls);
  data.mayDiverge = training->rates.optimizer && calls > 0 && training->skipped.inARow() == 0;
  data.forgetFound();
  llvm::Error error = runBatches(numbers, stats);
  for (auto &executor : core->executors)
    if (!error)
      error = executor->updateNorms();
  error = withNotFiniteInputs(std::move(error), core->artifact.plan.signature, core->data.inputs);
  error = endCall(std::move(error));
  core->data.runs.clear();
  core->data.isLast = true;
  if (error)
    return std::move(error);
  LossSum loss;
  for (size_t k = 0; k < core->data.leaves.size(); ++k)
    loss.add(core->data.leaves[k][plan.loss].toTensor(), data.scales[k]);
  core->data.forgetLeaves();
  TRY(training->skipped.note(data.skipped, core->training->mostSkipped));
  return TrainedStep{loss.total(data.count), data.gradientNorm.item<double>(),
                     data.skipped ? 0 : learningRate, data.skipped};
}

/// Micro-batches that were cut before.
llvm::Expected<BatchParts> Pipeline::Impl::given(const std::vector<std::vector<c10::IValue>> &cut) {
  const int64_t fixed = anyNumber ? wanted : core->program->microBatches * replicas();
  const auto number = static_cast<int64_t>(cut.size());
  if (number == 0 || (fixed != 0 && number != fixed))
    return failf(ExitCode::Usage, "micro-batches: expected {}, got {}",
                 fixed ? std::to_string(fixed) : "at least 1", number);
  BatchParts parts = TRY(checkMicroBatches(core->artifact.plan.signature, cut));
  TRY(prepareFor(number));
  return parts;
}

llvm::Expected<TrainedStep> Pipeline::step(const ValueTree &arguments, StepStats *stats) {
  std::vector<c10::IValue> inputs = TRY(bindTree(arguments));
  return step(inputs, stats);
}

llvm::Expected<TrainedStep> Pipeline::step(const std::vector<c10::IValue> &inputs,
                                           StepStats *stats) {
  const Impl::Call call = TRY(Impl::Call::begin(impl_.get()));
  TRY(impl_->canStep());
  BatchParts parts = TRY(impl_->split(inputs));
  const auto number = static_cast<int64_t>(parts.inputs.size());
  return impl_->step(std::move(parts), number, stats);
}

llvm::Expected<std::vector<c10::IValue>> Pipeline::bindTree(const ValueTree &arguments) const {
  Arguments given = TRY(argumentsOfValue("arguments", arguments.ivalue()));
  return bind(given);
}

llvm::Expected<std::vector<std::vector<c10::IValue>>>
Pipeline::bindTrees(const std::vector<ValueTree> &trees) const {
  std::vector<std::vector<c10::IValue>> all;
  for (const ValueTree &tree : trees) {
    std::vector<c10::IValue> inputs = TRY(bindTree(tree));
    all.push_back(std::move(inputs));
  }
  return all;
}

llvm::Expected<TrainedStep> Pipeline::stepOnBatches(const std::vector<ValueTree> &batches,
                                                    StepStats *stats) {
  std::vector<std::vector<c10::IValue>> bound = TRY(bindTrees(batches));
  return stepOnBatches(bound, stats);
}

llvm::Expected<TrainedStep>
Pipeline::stepOnBatches(const std::vector<std::vector<c10::IValue>> &batches, StepStats *stats) {
  const Impl::Call call = TRY(Impl::Call::begin(impl_.get()));
  TRY(impl_->canStep());
  if (batches.empty())
    return makeError(ExitCode::Usage, "batches: expected at least 1, got 0");
  BatchParts all;
  std::vector<int64_t> numbers;
  for (const std::vector<c10::IValue> &batch : batches) {
    BatchParts parts = TRY(impl_->split(batch));
    numbers.push_back(static_cast<int64_t>(parts.inputs.size()));
    std::move(parts.inputs.begin(), parts.inputs.end(), std::back_inserter(all.inputs));
    all.samples.insert(all.samples.end(), parts.samples.begin(), parts.samples.end());
  }
  llvm::Expected<TrainedStep> done = impl_->step(std::move(all), numbers, stats);
  if (done)
    impl_->training->given = 0;
  return done;
}

llvm::Expected<TrainedStep> Pipeline::stepOnMicroBatches(const std::vector<ValueTree> &microBatches,
                                                         StepStats *stats) {
  std::vector<std::vector<c10::IValue>> bound = TRY(bindTrees(microBatches));
  return stepOnMicroBatches(bound, stats);
}

llvm::Expected<TrainedStep>
Pipeline::stepOnMicroBatches(const std::vector<std::vector<c10::IValue>> &microBatches,
                             StepStats *stats) {
  const Impl::Call call = TRY(Impl::Call::begin(impl_.get()));
  TRY(impl_->canStep());
  BatchParts parts = TRY(impl_->given(microBatches));
  const auto number = static_cast<int64_t>(microBatches.size());
  llvm::Expected<TrainedStep> done = impl_->step(std::move(parts), number, stats);
  if (done)
    impl_->training->given = number;
  return done;
}

} // namespace pipec
