#include "runtime/Pipeline.h"

#include "ir/TorchError.h"
#include "ir/batch/MergeOutputs.h"
#include "ir/support/Try.h"
#include "ir/text/GraphText.h"
#include "ir/values/BindArguments.h"
#include "ir/values/ValueFiles.h"
#include "runtime/PipelineImpl.h"

#include <ATen/core/jit_type.h>
#include <c10/core/GradMode.h>

#include <algorithm>

namespace pipec {

namespace {

/// Errors: Usage naming the option and its value.
llvm::Error checkNumbers(const PipelineOptions &options) {
  constexpr int kMostThreads = 1024; // with more, LibTorch slows the machine down
  const std::pair<const char *, int64_t> counts[] = {{"microBatches", options.microBatches},
                                                     {"threads", options.threads},
                                                     {"dynamic", options.dynamic}};
  for (const auto &[name, number] : counts)
    if (number < 0)
      return failf(ExitCode::Usage, "{}: expected at least 1, or 0 for the default, got {}", name,
                   number);
  if (options.microBatches > kMostInTable)
    return failf(ExitCode::Usage, "microBatches: expected at most {}, got {}", kMostInTable,
                 options.microBatches);
  if (options.threads > kMostThreads)
    return failf(ExitCode::Usage, "threads: expected at most {}, got {}", kMostThreads,
                 options.threads);
  if (!options.scheduleName.empty() && !options.scheduleCsv.empty())
    return makeError(ExitCode::Usage,
                     "scheduleName: expected it without scheduleCsv, got both, with the name " +
                         options.scheduleName);
  if (!options.training)
    return llvm::Error::success();
  const TrainingOptions &training = *options.training;
  if (!(training.clipNorm >= 0))
    return failf(ExitCode::Usage, "clipNorm: expected more than 0, or 0 for none, got {}",
                 training.clipNorm);
  if (training.mostSkipped < 0)
    return failf(ExitCode::Usage, "mostSkipped: expected at least 1, or 0 for any number, got {}",
                 training.mostSkipped);
  if (!training.learningRates.empty() && !training.updates())
    return failf(ExitCode::Usage, "learningRates: expected an optimizer beside {}, got none",
                 training.learningRates);
  return llvm::Error::success();
}

} // namespace

Pipeline::Pipeline(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Pipeline::Pipeline(Pipeline &&) = default;
Pipeline &Pipeline::operator=(Pipeline &&) = default;
Pipeline::~Pipeline() = default;

llvm::Expected<Pipeline> Pipeline::load(const std::string &directory,
                                        const PipelineOptions &options) {
  TRY(checkNumbers(options));
  Artifact artifact = TRY(openArtifact(directory));
  return Impl::load(std::move(artifact), options);
}

/// Of a pipeline that was moved from.
static const Artifact &noArtifact() {
  static const Artifact none;
  return none;
}

const Plan &Pipeline::plan() const { return (impl_ ? impl_->core->artifact : noArtifact()).plan; }
size_t Pipeline::compiledRanks() const { return impl_ ? impl_->compiledRanks : 0; }
const std::vector<std::string> &Pipeline::warnings() const {
  return (impl_ ? impl_->core->artifact : noArtifact()).warnings;
}
int64_t Pipeline::microBatches() const { return impl_ ? impl_->microBatches : 0; }
int64_t Pipeline::replicas() const { return impl_ ? impl_->replicas() : 0; }
int Pipeline::threads() const { return impl_ ? impl_->threadsPerRank : 0; }

std::vector<std::string> Pipeline::devices() const {
  std::vector<std::string> names;
  if (!impl_)
    return names;
  for (const auto &device : impl_->core->devices)
    names.push_back(device->name());
  return names;
}

std::vector<int64_t> Pipeline::peakMemoryBytes() const {
  std::vector<int64_t> bytes;
  if (!impl_)
    return bytes;
  for (const auto &device : impl_->core->devices)
    bytes.push_back(device->peakMemoryBytes());
  return bytes;
}

llvm::Expected<RunTrace> Pipeline::trace() const {
  const Impl::Call call = TRY(Impl::Call::begin(impl_.get()));
  if (!impl_->core->program || impl_->calls == 0 || impl_->failed)
    return makeError(ExitCode::Usage, "trace: expected a successful call before it, got none");
  const ReadyProgram &ready = *impl_->core->program;
  RunTrace trace = ready.run;
  int64_t begin = std::numeric_limits<int64_t>::max();
  for (size_t rank = 0; rank < ready.interpreters.size(); ++rank) {
    Interpreter &interpreter = *ready.interpreters[rank];
    for (size_t i = 0; i < interpreter.order().size(); ++i)
      trace.program.ranks[rank][i] = ready.run.program.ranks[rank][interpreter.order()[i]];
    for (const Timing::Interval &time : trace.ranks.emplace_back(interpreter.times()))
      begin = std::min(begin, time.start);
  }
  for (std::vector<Timing::Interval> &rank : trace.ranks)
    for (Timing::Interval &time : rank)
      time = {time.start - begin, time.end - begin};
  return trace;
}

llvm::Expected<std::vector<c10::IValue>> Pipeline::bind(const Arguments &arguments) const {
  if (!impl_)
    return Impl::Call::movedFrom();
  const Plan &plan = impl_->core->artifact.plan;
  std::vector<c10::TypePtr> types(plan.signature.inputs.size());
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    std::vector<c10::TypePtr> ports = impl_->core->executors[s]->module().inputTypes();
    for (size_t i = 0; i < ports.size(); ++i)
      if (plan.stages[s].inputs[i].kind == StageInput::Kind::UserInput)
        types[plan.stages[s].inputs[i].index] = ports[i];
  }
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i])
      continue;
    // No stage reads this argument, so only the plan has its type. It may be a class that only the
    // source describes: any value is right then.
    llvm::Expected<c10::TypePtr> type = typeFromText(plan.signature.inputs[i].type);
    types[i] = type ? *type : c10::TypePtr(c10::AnyType::get());
    llvm::consumeError(type.takeError());
  }
  return bindArguments(plan.signature, types, arguments);
}

llvm::Error Pipeline::check(const std::vector<c10::IValue> &inputs) {
  const Impl::Call call = TRY(Impl::Call::begin(impl_.get()));
  return impl_->split(inputs).takeError();
}

llvm::Expected<ValueTree> Pipeline::infer(const ValueTree &arguments, StepStats *stats) {
  Arguments given = TRY(argumentsOfValue("arguments", arguments.ivalue()));
  auto inputs = TRY(bind(given));
  c10::IValue result = TRY(infer(inputs, stats));
  return ValueTree::of(result);
}

llvm::Expected<c10::IValue> Pipeline::infer(const std::vector<c10::IValue> &inputs,
                                            StepStats *stats) {
  const Impl::Call call = TRY(Impl::Call::begin(impl_.get()));
  Impl &impl = *impl_;
  if (impl.core->training)
    return makeError(ExitCode::Usage, "infer: expected a pipeline without training options",
                     "call step(), or load an artifact that was compiled for inference");
  TRY(impl.usableAgain());
  BatchParts parts = TRY(impl.split(inputs));
  llvm::Error error = impl.runBatch(std::move(parts), inputs, stats);
  std::optional<c10::IValue> result;
  if (!error) {
    StepData &data = impl.core->data;
    c10::AutoGradMode noGrad(false);
    llvm::Expected<c10::IValue> merged =
        mergeOutputs(impl.core->artifact.plan.signature, data.leaves, data.samples,
                     stats ? &stats->warnings : nullptr);
    data.forgetLeaves();
    if (merged) {
      result = std::move(*merged);
      error = impl.giveAway(*result);
    } else {
      error = merged.takeError();
    }
  }
  TRY(impl.endCall(std::move(error)));
  return std::move(*result);
}

} // namespace pipec
