#include "runtime/Pipeline.h"

#include "ir/GraphText.h"
#include "ir/MicroBatch.h"
#include "ir/TorchError.h"
#include "ir/Values.h"
#include "ir/artifact/ArtifactCheck.h"
#include "runtime/BatchSplit.h"
#include "runtime/Interpreter.h"
#include "runtime/RankThreads.h"
#include "runtime/Resources.h"
#include "runtime/ThreadSettings.h"
#include "runtime/transport/InProcess.h"

#include <ATen/core/jit_type.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>

namespace pipec {

namespace {

/// How long ranks may take to stop after the first error before they are called stuck.
constexpr std::chrono::seconds kGrace(5);

llvm::Expected<Schedule> chooseSchedule(const Artifact &artifact, const PipelineOptions &options,
                                        int64_t microBatches) {
  const Plan &plan = artifact.plan;
  if (!options.scheduleName.empty() && options.scheduleName != "forward-only")
    return makeError(ExitCode::Usage,
                     "schedule " + options.scheduleName + ": expected forward-only or a CSV file");
  if (!options.scheduleCsv.empty() && options.scheduleName.empty())
    return scheduleFromCsv(options.scheduleCsv);
  bool generated = !options.scheduleName.empty() || plan.scheduleName == "forward-only";
  if (!generated && microBatches != plan.microBatches)
    return makeError(ExitCode::Usage,
                     fmt::format("micro-batches: expected {}, of which the artifact's schedule is, "
                                 "got {}",
                                 plan.microBatches, microBatches),
                     "--schedule forward-only runs any number of them");
  if (!generated)
    return scheduleFromCsv(artifact.scheduleCsv);
  ScheduleShape shape{plan.stages.size(), microBatches, {}, plan.ranks};
  for (const StagePlan &stage : plan.stages)
    shape.rankOfStage.push_back(stage.rank);
  return forwardOnly(shape);
}

/// Whoever compiled without an example has no check of the sizes before the stages run.
llvm::Error explainUnknownSizes(llvm::Error error, const Signature &signature) {
  ErrorText text = describe(std::move(error));
  if (text.code == ExitCode::Usage && text.help.empty() && signature.batchSize == 0)
    text.help = "if the model should take these inputs, compile it again with them as --inputs, "
                "which shows the sizes that it takes";
  return makeError(text.code, text.message, text.help);
}

} // namespace

/// Everything that rank threads touch; they share its ownership with the pipeline.
struct PipelineCore {
  Artifact artifact;
  int64_t microBatches = 1;
  std::vector<std::shared_ptr<Device>> devices;          // per rank
  std::vector<std::unique_ptr<StageExecutor>> executors; // per stage
  std::unique_ptr<Transport> transport;
  std::vector<std::unique_ptr<Interpreter>> interpreters; // per rank
  StepData data;

  std::mutex mutex;
  std::optional<ErrorText> firstError;
  std::optional<int64_t> failedMicroBatch; // of that error, if a stage made it
  std::atomic<bool> failed = false;

  /// The first error wins: those of ranks that it stopped are its echo.
  void fail(const ErrorText &error, std::optional<int64_t> microBatch) {
    {
      std::lock_guard<std::mutex> lock(mutex);
      if (firstError)
        return;
      firstError = error;
      failedMicroBatch = microBatch;
      failed = true;
    }
    transport->abort(error);
  }

  void runRank(size_t rank) {
    std::optional<ErrorText> text;
    llvm::Error escaped = guardTorchVoid(ExitCode::Internal, fmt::format("rank {}", rank), [&] {
      if (llvm::Error error = interpreters[rank]->run(data))
        text = describe(std::move(error));
    });
    if (escaped)
      text = describe(std::move(escaped));
    if (text)
      fail(*text, interpreters[rank]->failedMicroBatch());
  }
};

struct Pipeline::Impl {
  std::shared_ptr<PipelineCore> core;
  std::unique_ptr<RankThreads> threads;
  int threadsPerRank = 1;
  uint64_t calls = 0;

  llvm::Error openDevices(const PipelineOptions &options);
  llvm::Error loadStages();
  llvm::Error deliverWeights();
  llvm::Error prepareProgram(const PipelineOptions &options);
  void startThreads(const PipelineOptions &options);
  llvm::Error runStep();
  void measure(StepStats &stats, int64_t makespanNs);
};

llvm::Error Pipeline::Impl::openDevices(const PipelineOptions &options) {
  const Plan &plan = core->artifact.plan;
  llvm::Expected<std::vector<std::string>> names = deviceNames(options.devices, plan.ranks);
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

/// Tied weights that are transmitted: the owner's tensor goes to each user once, on one device
/// without a copy.
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

llvm::Error Pipeline::Impl::prepareProgram(const PipelineOptions &options) {
  const Plan &plan = core->artifact.plan;
  llvm::Expected<Schedule> schedule = chooseSchedule(core->artifact, options, core->microBatches);
  if (!schedule)
    return schedule.takeError();
  llvm::Expected<Program> program = lower(*schedule, plan, core->microBatches);
  if (!program)
    return program.takeError();
  if (llvm::Error error = check(*program, plan, core->microBatches))
    return error;
  core->transport = makeInProcessTransport(program->lanes, core->devices);
  for (size_t rank = 0; rank < plan.ranks; ++rank) {
    llvm::Expected<RankProgram> resolved = resolve(*program, rank, plan, core->microBatches);
    if (!resolved)
      return resolved.takeError();
    core->interpreters.push_back(std::make_unique<Interpreter>(
        std::move(*resolved), core->executors, *core->transport, *core->devices[rank]));
  }
  return llvm::Error::success();
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

llvm::Error Pipeline::Impl::runStep() {
  std::vector<size_t> stuck = threads->run([core = core](size_t rank) { core->runRank(rank); },
                                           [this] { return core->failed.load(); }, kGrace);
  if (!core->failed)
    return llvm::Error::success();
  std::lock_guard<std::mutex> lock(core->mutex);
  for (size_t rank : stuck)
    core->firstError->message +=
        fmt::format("; rank {} did not stop: it is still inside an operator", rank);
  return makeError(core->firstError->code, core->firstError->message, core->firstError->help);
}

void Pipeline::Impl::measure(StepStats &stats, int64_t makespanNs) {
  stats = StepStats();
  stats.makespanNs = makespanNs;
  stats.stageBusyNs.assign(core->executors.size(), 0);
  int64_t longestSpan = 0;
  for (auto &interpreter : core->interpreters)
    longestSpan = std::max(longestSpan, interpreter->addTimes(stats.stageBusyNs));
  int64_t work = 0;
  for (int64_t busy : stats.stageBusyNs)
    work += busy;
  auto idle = [&](int64_t span) {
    double capacity = static_cast<double>(span) * static_cast<double>(core->interpreters.size());
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
  if (llvm::Expected<Program> program = checkSchedule(artifact->scheduleCsv, artifact->plan);
      !program)
    return withContext(program.takeError(), directory + ": schedule.csv");
  auto impl = std::make_unique<Impl>();
  impl->core = std::make_shared<PipelineCore>();
  PipelineCore &core = *impl->core;
  core.artifact = std::move(*artifact);
  core.microBatches = options.microBatches ? options.microBatches
                                           : std::max<int64_t>(core.artifact.plan.microBatches, 1);
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
int64_t Pipeline::microBatches() const { return impl_->core->microBatches; }
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
    // No stage reads this argument: its type is in the plan only.
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
  PipelineCore &core = *impl_->core;
  if (core.firstError)
    return makeError(core.firstError->code,
                     "the pipeline stopped earlier: " + core.firstError->message,
                     core.firstError->help);
  const Signature &signature = core.artifact.plan.signature;
  llvm::Expected<BatchParts> parts = splitBatch(signature, inputs, core.microBatches);
  if (!parts)
    return parts.takeError();
  core.data.step = impl_->calls++;
  core.data.inputs = std::move(parts->inputs);
  core.data.leaves.assign(core.microBatches, std::vector<c10::IValue>(signature.leaves.size()));

  auto start = std::chrono::steady_clock::now();
  if (llvm::Error error = impl_->runStep())
    return explainUnknownSizes(
        withArguments(std::move(error), signature,
                      core.failedMicroBatch ? core.data.inputs[*core.failedMicroBatch] : inputs),
        signature);
  int64_t makespanNs = (std::chrono::steady_clock::now() - start) / std::chrono::nanoseconds(1);
  if (stats)
    impl_->measure(*stats, makespanNs);
  std::vector<std::vector<c10::IValue>> leaves = std::move(core.data.leaves);
  core.data.inputs.clear();
  c10::AutoGradMode noGrad(false);
  return mergeOutputs(signature, leaves, parts->samples);
}

} // namespace pipec
