// The steps of a pipeline that trains: on a batch, on several, on micro-batches that were cut
// before.
#include "ir/support/Try.h"
#include "ir/values/ValueFiles.h"
#include "runtime/PipelineImpl.h"
#include "runtime/PipelineTraining.h"
#include "runtime/SplitCheck.h"
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

/// One run of the program per batch. Leaves of all are in the core's data afterwards.
llvm::Error Pipeline::Impl::runBatches(std::vector<BatchParts> &batches, StepStats *stats) {
  StepData &data = core->data;
  data.step = calls;
  data.runs.clear();
  data.inputs = std::move(batches.front().inputs);
  for (BatchParts &batch : llvm::MutableArrayRef<BatchParts>(batches).drop_front())
    std::move(batch.inputs.begin(), batch.inputs.end(), std::back_inserter(data.inputs));
  data.beginLeaves(data.inputs.size(), core->artifact.plan.signature.leaves.size());
  StepStats all;
  int64_t begin = 0; // the first micro-batch of the run
  for (size_t b = 0; b < batches.size(); ++b) {
    const auto number = static_cast<int64_t>(batches[b].samples.size());
    TRY(prepareFor(number));
    data.runs.push_back({begin, number / replicas()});
    data.isLast = b + 1 == batches.size();
    TRY(finishDevices()); // the caller's work on them may have made the inputs
    const auto start = std::chrono::steady_clock::now();
    TRY(runStep(data.inputs[begin]));
    TRY(finishDevices());
    StepStats one;
    measure(one, (std::chrono::steady_clock::now() - start) / std::chrono::nanoseconds(1));
    addStats(all, one);
    begin += number;
  }
  if (stats)
    *stats = std::move(all);
  data.forgetInputs();
  return llvm::Error::success();
}

llvm::Expected<TrainedStep> Pipeline::Impl::step(std::vector<BatchParts> batches,
                                                 StepStats *stats) {
  TRY(checkAnySamples(batches));
  const TrainingOptions &options = *core->training;
  std::vector<int64_t> samples;
  for (const BatchParts &batch : batches)
    samples.insert(samples.end(), batch.samples.begin(), batch.samples.end());
  if (std::exchange(training->mustVerifySplit, false))
    TRY(checkSplitBackwards(core->artifact, batches.front().inputs.front()));
  TrainingData &data = core->data.training;
  data = TrainingData();
  data.scales = training->scalesOf(*core->artifact.plan.training, samples);
  const double learningRate = training->rates.at(calls);
  data.rateFactor = training->rates.factorAt(calls);
  data.needsDense = training->needsDense;
  data.clipNorm = options.clipNorm;
  data.keepsGradients = options.keepGradients;
  data.skipsNan = options.onNan == OnNan::Skip;
  data.mayDiverge = training->rates.optimizer && calls > 0 && training->skipped.inARow() == 0;
  llvm::Error error = runBatches(batches, stats);
  for (auto &executor : core->executors)
    if (!error)
      error = executor->updateNorms();
  error = endCall(std::move(error));
  core->data.runs.clear();
  core->data.isLast = true;
  if (error)
    return std::move(error);
  std::vector<at::Tensor> losses;
  losses.reserve(core->data.leaves.size());
  for (const std::vector<c10::IValue> &leaves : core->data.leaves)
    losses.push_back(leaves[core->artifact.plan.training->loss].toTensor());
  core->data.forgetLeaves();
  TRY(training->skipped.note(data.skipped, options.mostSkipped));
  return TrainedStep{totalLoss(losses, data.scales, data.count), data.gradientNorm.item<double>(),
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
  std::vector<BatchParts> one;
  one.push_back(std::move(parts));
  return impl_->step(std::move(one), stats);
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
  std::vector<BatchParts> parts;
  for (const std::vector<c10::IValue> &batch : batches) {
    BatchParts cut = TRY(impl_->split(batch));
    parts.push_back(std::move(cut));
  }
  llvm::Expected<TrainedStep> done = impl_->step(std::move(parts), stats);
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
  std::vector<BatchParts> one;
  one.push_back(std::move(parts));
  llvm::Expected<TrainedStep> done = impl_->step(std::move(one), stats);
  if (done)
    impl_->training->given = static_cast<int64_t>(microBatches.size());
  return done;
}

} // namespace pipec
