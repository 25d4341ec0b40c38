// One call of a pipeline: the batch is cut, all ranks run, the times are measured, and after a
// failure the state from before the call is restored.
#include "ir/TorchError.h"
#include "ir/artifact/SerialRunner.h"
#include "ir/batch/FixedBatch.h"
#include "ir/batch/MicroBatchNumber.h"
#include "ir/support/Try.h"
#include "ir/values/ArgumentText.h"
#include "runtime/PipelineImpl.h"
#include "runtime/SameDraws.h"

#include <algorithm>
#include <chrono>

namespace pipec {

namespace {

/// The time that ranks have to stop after the first error before they count as stuck.
constexpr std::chrono::seconds kGrace(5);

std::string ranksInside(llvm::ArrayRef<size_t> ranks) {
  const bool one = ranks.size() == 1;
  return fmt::format("rank{} {} {} still inside an operator", one ? "" : "s",
                     fmt::join(ranks.begin(), ranks.end(), ", "), one ? "is" : "are");
}

/// Without an example at compile time, sizes are not checked before the stages run.
llvm::Error explainUnknownSizes(llvm::Error error, const Signature &signature) {
  ErrorText text = describe(std::move(error));
  const bool hasHelp = !text.help.empty() && text.help != kRefusedByModel;
  if (text.code == ExitCode::Usage && !hasHelp && signature.batchSize == 0)
    text.help = "if the model accepts these inputs, compile it again with them as --inputs, so "
                "that the artifact knows its sizes";
  return makeError(text.code, text.message, text.help);
}

/// A micro-batch may have fewer samples than the model accepts, as for a batch norm in training.
/// New stages run, because the pipeline's hold the state of the failed step.
llvm::Error explainMicroBatch(llvm::Error error, const Artifact &artifact, const Values &called) {
  std::optional<SerialStages> files;
  auto run = [&](std::vector<Values> calls) -> llvm::Expected<Values> {
    if (!files)
      files = TRY(SerialStages::load(artifact.directory, artifact.plan));
    std::vector<StageModule> stages = TRY(files->copy());
    SerialRunner runner(artifact.plan, std::move(stages));
    const SameDraws draws;
    Values results;
    for (Values &call : calls) {
      SerialRunner::Result result = TRY(runner.run(std::move(call)));
      results.emplace_back(c10::ivalue::Tuple::create(std::move(result.leaves)));
    }
    return results;
  };
  return explainFewSamples(std::move(error), artifact.plan.signature, called, run);
}

} // namespace

llvm::Error Pipeline::Impl::Call::movedFrom() {
  return makeError(ExitCode::Usage, "the pipeline was moved from",
                   "call the pipeline that it was moved to");
}

llvm::Expected<Pipeline::Impl::Call> Pipeline::Impl::Call::begin(Impl *impl) {
  if (!impl)
    return movedFrom();
  if (impl->inUse.exchange(true, std::memory_order_acquire))
    return makeError(ExitCode::Usage, "the pipeline is in use by another thread",
                     "call it from one thread at a time, or load the artifact once per thread");
  return Call(impl);
}

llvm::Expected<BatchParts> Pipeline::Impl::split(const std::vector<c10::IValue> &inputs) {
  const Plan &plan = core->artifact.plan;
  if (inputs.size() != plan.signature.inputs.size())
    return failf(ExitCode::Usage, "inputs: expected {}, got {}", plan.signature.inputs.size(),
                 inputs.size());
  int64_t number = anyNumber ? wanted : core->program->microBatches * replicas();
  if (!anyNumber) {
    TRY(checkScheduledNumber(plan.signature, inputs, number));
  } else if (number == 0) {
    int64_t byBatch = TRY(microBatchNumber(plan, inputs, replicas()));
    number = byBatch;
  }
  StepData &data = core->data;
  BatchParts parts = TRY(splitBatch(plan.signature, inputs, number,
                                    {std::move(data.inputs), std::move(data.samples)}));
  TRY(prepareFor(number));
  return parts;
}

llvm::Error Pipeline::Impl::runStep(const std::vector<c10::IValue> &inputs) {
  auto failedYet = [this] { return core->data.failed.load(); };
  threads->run(runRanks, failedYet, kGrace);
  if (!failedYet())
    return llvm::Error::success();
  const Artifact &artifact = core->artifact;
  std::unique_lock<std::mutex> lock(core->mutex);
  const ErrorText first = *core->firstError;
  const std::optional<int64_t> microBatch = core->failedMicroBatch;
  lock.unlock();
  const std::vector<c10::IValue> &called = microBatch ? core->data.inputs[*microBatch] : inputs;
  llvm::Error error = withArguments(makeError(first.code, first.message, first.help),
                                    artifact.plan.signature, called);
  if (microBatch && core->training) // the runs would delay what follows a failed inference
    error = explainMicroBatch(std::move(error), artifact, called);
  return explainUnknownSizes(std::move(error), artifact.plan.signature);
}

/// The calling thread waits for all devices, and they for what it has begun on them.
llvm::Error Pipeline::Impl::finishDevices() {
  for (const std::shared_ptr<Device> &device : core->devices) {
    if (!device->hasStreams())
      continue;
    if (llvm::Error error =
            guardTorchVoid(ExitCode::Other, "device " + device->name(), [&] { device->finish(); }))
      return error;
  }
  return llvm::Error::success();
}

/// Makes a result the caller's: complete, and usable on the caller's current stream.
llvm::Error Pipeline::Impl::giveAway(c10::IValue &result) {
  if (llvm::none_of(core->devices, [](const auto &device) { return device->hasStreams(); }))
    return llvm::Error::success();
  for (const std::shared_ptr<Device> &device : core->devices)
    TRY(guardTorchVoid(ExitCode::Other, "device " + device->name(),
                       [&] { result = device->bring(std::move(result), *device); }));
  return finishDevices();
}

/// Leaves and numbers of samples are in the core's data afterwards.
llvm::Error Pipeline::Impl::runBatch(BatchParts parts, const std::vector<c10::IValue> &inputs,
                                     StepStats *stats) {
  StepData &data = core->data;
  data.step = calls;
  data.inputs = std::move(parts.inputs);
  data.samples = std::move(parts.samples);
  data.beginLeaves(microBatches, core->artifact.plan.signature.leaves.size());
  TRY(finishDevices()); // the caller's work on them may have made the inputs
  auto start = std::chrono::steady_clock::now();
  TRY(runStep(inputs));
  TRY(finishDevices());
  int64_t makespanNs = (std::chrono::steady_clock::now() - start) / std::chrono::nanoseconds(1);
  if (stats)
    measure(*stats, makespanNs);
  data.forgetInputs();
  return llvm::Error::success();
}

void Pipeline::Impl::measure(StepStats &stats, int64_t makespanNs) {
  stats = StepStats();
  stats.makespanNs = makespanNs;
  stats.stageBusyNs.assign(core->executors.size(), 0);
  int64_t longestSpan = 0;
  for (auto &interpreter : core->program->interpreters)
    longestSpan = std::max(longestSpan, interpreter->addTimes(stats.stageBusyNs));
  int64_t work = 0;
  for (int64_t busy : stats.stageBusyNs)
    work += busy;
  auto idle = [&](int64_t span) {
    double capacity =
        static_cast<double>(span) * static_cast<double>(core->program->interpreters.size());
    return capacity > 0 ? std::max(0.0, 1 - static_cast<double>(work) / capacity) : 0.0;
  };
  for (int64_t &busy : stats.stageBusyNs)
    busy /= replicas();
  stats.bubbleMakespan = idle(makespanNs);
  stats.bubbleLongestSpan = idle(longestSpan);
}

/// Of a call: keeps its state, or restores the one from before it.
llvm::Error Pipeline::Impl::endCall(llvm::Error error) {
  if (!error) {
    for (size_t k = 0; k < core->replicas; ++k)
      for (auto &executor : core->executorsOf(k))
        executor->keepState();
    ++calls;
    return llvm::Error::success();
  }
  failed = true;
  ErrorText text = describe(std::move(error));
  if (llvm::Error worse = restore())
    text.message += "; " + describe(std::move(worse)).message;
  return makeError(text.code, text.message, text.help);
}

llvm::Error Pipeline::Impl::usableAgain() {
  if (unusable)
    return makeError(unusable->code, unusable->message, unusable->help);
  return failed ? restore() : llvm::Error::success();
}

/// After a failed call, restores the state from before it. Errors: a rank has not returned yet, or
/// its device is lost.
llvm::Error Pipeline::Impl::restore() {
  std::vector<size_t> inside = threads->unfinished();
  if (inside.empty())
    inside = threads->run(
        RankThreads::jobOf([core = core](size_t rank) { core->restoreRank(rank); }),
        [] { return true; }, kGrace);
  if (!inside.empty())
    return makeError(ExitCode::Other,
                     ranksInside(inside) +
                         " of a call that failed; the pipeline accepts no call until it returns",
                     "load the artifact again");
  if (core->lost) {
    unusable = ErrorText{ExitCode::Other, "the pipeline is unusable: " + core->lost->message,
                         "load the artifact again; after the failure of a GPU, in a new process"};
    return makeError(unusable->code, unusable->message, unusable->help);
  }
  for (const auto &interpreter : core->program->interpreters)
    if (interpreter->hasUpdated()) {
      unusable = ErrorText{ExitCode::Other,
                           "the pipeline is unusable: the failed step has updated some weights",
                           "load the artifact again"};
      return makeError(unusable->code, unusable->message, unusable->help);
    }
  core->forgetStep();
  failed = false;
  return finishDevices();
}

} // namespace pipec
