#include "runtime/Pipeline.h"

#include "ir/TorchError.h"
#include "ir/batch/BatchSplit.h"
#include "ir/batch/MergeOutputs.h"
#include "ir/batch/MicroBatchNumber.h"
#include "ir/text/GraphText.h"
#include "ir/values/Values.h"
#include "runtime/PipelineCore.h"
#include "runtime/RankThreads.h"
#include "runtime/Resources.h"
#include "runtime/ThreadSettings.h"

#include <ATen/core/jit_type.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <chrono>

namespace pipec {

namespace {

/// The time that ranks have to stop after the first error before they count as stuck.
constexpr std::chrono::seconds kGrace(5);

/// Whether the schedule is generated for any number of micro-batches.
bool isGenerated(const Plan &plan, const PipelineOptions &options) {
  return options.scheduleName == "forward-only" ||
         (options.scheduleCsv.empty() && plan.scheduleName == "forward-only");
}

/// A schedule that is not generated: of the options, or the artifact's.
llvm::Expected<Schedule> givenSchedule(const Artifact &artifact, const PipelineOptions &options) {
  if (!options.scheduleCsv.empty())
    return scheduleFromCsv(options.scheduleCsv);
  int64_t expected = artifact.plan.microBatches;
  if (options.microBatches && options.microBatches != expected)
    return makeError(
        ExitCode::Usage,
        fmt::format("micro-batches: expected {}, the number in the artifact's schedule, got {}",
                    expected, options.microBatches),
        "--schedule forward-only accepts any number");
  return scheduleFromCsv(artifact.scheduleCsv);
}

Schedule generatedSchedule(const Plan &plan, int64_t microBatches) {
  ScheduleShape shape{plan.stages.size(), microBatches, {}, plan.ranks};
  for (const StagePlan &stage : plan.stages)
    shape.rankOfStage.push_back(stage.rank);
  return forwardOnly(shape);
}

std::string ranksInside(llvm::ArrayRef<size_t> ranks) {
  const bool one = ranks.size() == 1;
  return fmt::format("rank{} {} {} still inside an operator", one ? "" : "s",
                     fmt::join(ranks.begin(), ranks.end(), ", "), one ? "is" : "are");
}

/// Without an example at compile time, sizes are not checked before the stages run.
llvm::Error explainUnknownSizes(llvm::Error error, const Signature &signature) {
  ErrorText text = describe(std::move(error));
  if (text.code == ExitCode::Usage && text.help.empty() && signature.batchSize == 0)
    text.help = "if the model accepts these inputs, compile it again with them as --inputs, so "
                "that the artifact knows its sizes";
  return makeError(text.code, text.message, text.help);
}

} // namespace

struct Pipeline::Impl {
  std::shared_ptr<PipelineCore> core;
  std::unique_ptr<RankThreads> threads;
  int threadsPerRank = 1;
  bool anyNumber = true;    // the schedule fits any number of micro-batches
  int64_t wanted = 0;       // micro-batches; 0: determined by the batch
  int64_t microBatches = 1; // of the last call
  uint64_t calls = 0;       // successful calls
  bool failed = false;      // the last call failed, and its state is not completely restored
  std::optional<ErrorText> unusable;

  llvm::Error openDevices(const PipelineOptions &options);
  llvm::Error loadStages();
  llvm::Error deliverWeights();
  llvm::Error prepareProgram(const PipelineOptions &options);
  void startThreads(const PipelineOptions &options);
  llvm::Expected<BatchParts> split(const std::vector<c10::IValue> &inputs);
  llvm::Error runStep(const std::vector<c10::IValue> &inputs);
  llvm::Expected<c10::IValue> run(BatchParts parts, const std::vector<c10::IValue> &inputs,
                                  StepStats *stats);
  llvm::Error restore();
  void measure(StepStats &stats, int64_t makespanNs);
};

llvm::Error Pipeline::Impl::openDevices(const PipelineOptions &options) {
  const Plan &plan = core->artifact.plan;
  llvm::Expected<std::vector<std::string>> names =
      deviceNames(options.devices, plan.ranks, plan.stages.size());
  if (!names)
    return names.takeError();
  for (const std::string &name : *names) {
    llvm::Expected<std::shared_ptr<Device>> device = makeDevice(name);
    if (!device)
      return device.takeError();
    core->devices.push_back(std::move(*device));
  }
  return llvm::Error::success();
}

llvm::Error Pipeline::Impl::loadStages() {
  const Plan &plan = core->artifact.plan;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    llvm::Expected<std::unique_ptr<StageExecutor>> executor = StageExecutor::load(
        core->artifact.stagePath(s), plan.stages[s], s, core->devices[plan.stages[s].rank]);
    if (!executor)
      return executor.takeError();
    core->executors.push_back(std::move(*executor));
  }
  return deliverWeights();
}

/// Delivers transmitted tied weights: the owner's tensor goes to each user once, without a copy on
/// one device.
llvm::Error Pipeline::Impl::deliverWeights() {
  for (const Channel &channel : core->artifact.plan.channels) {
    if (channel.kind != Channel::Kind::Weight)
      continue;
    StageExecutor &owner = *core->executors[channel.from.stage];
    for (const PortRef &to : channel.to) {
      StageExecutor &user = *core->executors[to.stage];
      llvm::Error error = guardTorchVoid(ExitCode::Other, "delivering weight " + channel.name, [&] {
        std::unique_ptr<Device::Scope> stream = user.device().enter(user.stream());
        c10::AutoGradMode noGrad(false);
        user.module().setAttribute(
            to.port,
            user.device().bring(owner.module().attribute(channel.from.port), owner.device()));
        user.device().finish();
      });
      if (error)
        return error;
    }
  }
  return llvm::Error::success();
}

/// A given schedule is for one number of micro-batches. A generated one is made when the batch is
/// known, so a number that is too large costs nothing.
llvm::Error Pipeline::Impl::prepareProgram(const PipelineOptions &options) {
  const Plan &plan = core->artifact.plan;
  if (!options.scheduleName.empty() && options.scheduleName != "forward-only")
    return makeError(ExitCode::Usage,
                     "schedule " + options.scheduleName + ": expected forward-only or a CSV file");
  anyNumber = isGenerated(plan, options);
  wanted = options.microBatches;
  microBatches = wanted ? wanted : std::max<int64_t>(plan.microBatches, 1);
  if (anyNumber)
    return llvm::Error::success();
  llvm::Expected<Schedule> schedule = givenSchedule(core->artifact, options);
  if (!schedule)
    return schedule.takeError();
  return core->prepare(*schedule, microBatches);
}

void Pipeline::Impl::startThreads(const PipelineOptions &options) {
  size_t ranks = core->artifact.plan.ranks;
  threadsPerRank = options.threads > 0 ? options.threads : defaultThreads(ranks);
  KeepThreadCount keep;
  threads = std::make_unique<RankThreads>(
      ranks, [count = threadsPerRank](const std::function<void()> &serve) {
        ThreadSettings settings(count);
        serve();
      });
}

llvm::Expected<BatchParts> Pipeline::Impl::split(const std::vector<c10::IValue> &inputs) {
  const Plan &plan = core->artifact.plan;
  if (inputs.size() != plan.signature.inputs.size())
    return failf(ExitCode::Usage, "inputs: expected {}, got {}", plan.signature.inputs.size(),
                 inputs.size());
  int64_t number = anyNumber ? wanted : core->program->microBatches;
  if (!anyNumber) {
    if (llvm::Error error = checkScheduledNumber(plan.signature, inputs, number))
      return std::move(error);
  } else if (number == 0) {
    llvm::Expected<int64_t> byBatch = microBatchNumber(plan, inputs);
    if (!byBatch)
      return byBatch.takeError();
    number = *byBatch;
  }
  llvm::Expected<BatchParts> parts = splitBatch(plan.signature, inputs, number);
  if (!parts)
    return parts;
  if (!core->program || core->program->microBatches != number)
    if (llvm::Error error = core->prepare(generatedSchedule(plan, number), number))
      return std::move(error);
  microBatches = number;
  return parts;
}

llvm::Error Pipeline::Impl::runStep(const std::vector<c10::IValue> &inputs) {
  auto failedYet = [this] { return core->data.failed.load(); };
  threads->run([core = core](size_t rank) { core->runRank(rank); }, failedYet, kGrace);
  if (!failedYet())
    return llvm::Error::success();
  std::lock_guard<std::mutex> lock(core->mutex);
  const Signature &signature = core->artifact.plan.signature;
  const ErrorText &first = *core->firstError;
  const auto &called = core->failedMicroBatch ? core->data.inputs[*core->failedMicroBatch] : inputs;
  return explainUnknownSizes(
      withArguments(makeError(first.code, first.message, first.help), signature, called),
      signature);
}

llvm::Expected<c10::IValue>
Pipeline::Impl::run(BatchParts parts, const std::vector<c10::IValue> &inputs, StepStats *stats) {
  const Signature &signature = core->artifact.plan.signature;
  StepData &data = core->data;
  data.step = calls;
  data.inputs = std::move(parts.inputs);
  data.leaves.assign(microBatches, std::vector<c10::IValue>(signature.leaves.size()));
  auto start = std::chrono::steady_clock::now();
  if (llvm::Error error = runStep(inputs))
    return std::move(error);
  int64_t makespanNs = (std::chrono::steady_clock::now() - start) / std::chrono::nanoseconds(1);
  if (stats)
    measure(*stats, makespanNs);
  std::vector<std::vector<c10::IValue>> leaves = std::move(data.leaves);
  data.inputs.clear();
  c10::AutoGradMode noGrad(false);
  return mergeOutputs(signature, leaves, parts.samples);
}

/// After a failed call, restores the state from before it. Errors: a rank has not returned yet, or
/// its device is lost.
llvm::Error Pipeline::Impl::restore() {
  std::vector<size_t> inside = threads->unfinished();
  if (inside.empty())
    inside = threads->run([core = core](size_t rank) { core->restoreRank(rank); },
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
  core->forgetStep();
  failed = false;
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
  stats.bubbleMakespan = idle(makespanNs);
  stats.bubbleLongestSpan = idle(longestSpan);
}

Pipeline::Pipeline(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Pipeline::Pipeline(Pipeline &&) = default;
Pipeline &Pipeline::operator=(Pipeline &&) = default;
Pipeline::~Pipeline() = default;

llvm::Expected<Pipeline> Pipeline::load(const std::string &directory,
                                        const PipelineOptions &options) {
  if (options.microBatches < 0 || options.threads < 0)
    return makeError(ExitCode::Usage, "micro-batches and threads: expected at least 1");
  llvm::Expected<Artifact> artifact = openArtifact(directory);
  if (!artifact)
    return artifact.takeError();
  if (artifact->plan.mode == Mode::Train)
    return makeError(ExitCode::Usage,
                     directory + ": expected an artifact compiled for inference, got one compiled "
                                 "for training",
                     "this version runs no trainings; compile the model without --train");
  if (llvm::Expected<Program> program = checkSchedule(artifact->scheduleCsv, artifact->plan);
      !program)
    return withContext(program.takeError(), directory + ": schedule.csv");
  auto impl = std::make_unique<Impl>();
  impl->core = std::make_shared<PipelineCore>();
  PipelineCore &core = *impl->core;
  core.artifact = std::move(*artifact);
  core.data.seed = options.seed;
  // The program first: a schedule that does not fit is refused before any stage file is read.
  if (llvm::Error error = impl->openDevices(options))
    return error;
  if (llvm::Error error = impl->prepareProgram(options))
    return error;
  if (llvm::Error error = impl->loadStages())
    return error;
  if (llvm::Error error = proveStages(directory, core.artifact.plan))
    return withContext(std::move(error), directory);
  impl->startThreads(options);
  return Pipeline(std::move(impl));
}

const Plan &Pipeline::plan() const { return impl_->core->artifact.plan; }
const std::vector<std::string> &Pipeline::warnings() const {
  return impl_->core->artifact.warnings;
}
int64_t Pipeline::microBatches() const { return impl_->microBatches; }
int Pipeline::threads() const { return impl_->threadsPerRank; }

std::vector<std::string> Pipeline::devices() const {
  std::vector<std::string> names;
  for (const auto &device : impl_->core->devices)
    names.push_back(device->name());
  return names;
}

std::vector<int64_t> Pipeline::peakMemoryBytes() const {
  std::vector<int64_t> bytes;
  for (const auto &device : impl_->core->devices)
    bytes.push_back(device->memory().peakBytes);
  return bytes;
}

llvm::Expected<std::vector<c10::IValue>> Pipeline::bind(const Arguments &arguments) const {
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
    // No stage reads this argument, so only the plan has its type.
    llvm::Expected<c10::TypePtr> type = typeFromText(plan.signature.inputs[i].type);
    types[i] = type ? *type : c10::TypePtr(c10::AnyType::get());
    llvm::consumeError(type.takeError());
  }
  return bindArguments(plan.signature, types, arguments);
}

llvm::Expected<ValueTree> Pipeline::infer(const ValueTree &arguments, StepStats *stats) {
  llvm::Expected<Arguments> given = argumentsOfValue("arguments", arguments.ivalue());
  if (!given)
    return given.takeError();
  auto inputs = bind(*given);
  if (!inputs)
    return inputs.takeError();
  llvm::Expected<c10::IValue> result = infer(*inputs, stats);
  if (!result)
    return result.takeError();
  return ValueTree::of(*result);
}

llvm::Expected<c10::IValue> Pipeline::infer(const std::vector<c10::IValue> &inputs,
                                            StepStats *stats) {
  Impl &impl = *impl_;
  if (impl.unusable)
    return makeError(impl.unusable->code, impl.unusable->message, impl.unusable->help);
  if (impl.failed)
    if (llvm::Error error = impl.restore())
      return std::move(error);
  llvm::Expected<BatchParts> parts = impl.split(inputs);
  if (!parts)
    return parts.takeError();
  llvm::Expected<c10::IValue> result = impl.run(std::move(*parts), inputs, stats);
  if (result) {
    for (auto &executor : impl.core->executors)
      executor->keepState();
    ++impl.calls;
    return result;
  }
  impl.failed = true;
  ErrorText text = describe(result.takeError());
  if (llvm::Error error = impl.restore())
    text.message += "; " + describe(std::move(error)).message;
  return makeError(text.code, text.message, text.help);
}

} // namespace pipec
