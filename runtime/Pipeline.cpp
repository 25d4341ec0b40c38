#include "ir/TorchError.h"
#include "ir/autograd/TrainingSettings.h"
#include "ir/batch/MergeOutputs.h"
#include "ir/batch/MicroBatchNumber.h"
#include "ir/schedule/CheckSchedule.h"
#include "ir/schedule/ForwardOnly.h"
#include "ir/schedule/NamedSchedule.h"
#include "ir/schedule/TableCheck.h"
#include "ir/text/GraphText.h"
#include "ir/values/Values.h"
#include "runtime/PipelineImpl.h"
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

/// The name of the schedule if it is generated for any number of micro-batches; else empty.
std::string generatedName(const Plan &plan, const PipelineOptions &options) {
  const std::string &name = options.scheduleName.empty() && options.scheduleCsv.empty()
                                ? plan.scheduleName
                                : options.scheduleName;
  return name == "table" ? "" : name;
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
        options.training ? "--schedule 1f1b accepts any number"
                         : "--schedule forward-only accepts any number");
  return scheduleFromCsv(artifact.scheduleCsv);
}

std::string ranksInside(llvm::ArrayRef<size_t> ranks) {
  const bool one = ranks.size() == 1;
  return fmt::format("rank{} {} {} still inside an operator", one ? "" : "s",
                     fmt::join(ranks.begin(), ranks.end(), ", "), one ? "is" : "are");
}

/// Stages are compiled for one of the two.
llvm::Error checkMode(const std::string &directory, const Plan &plan,
                      const PipelineOptions &options) {
  if (!options.training && plan.mode == Mode::Train)
    return makeError(ExitCode::Usage,
                     directory + ": expected an artifact compiled for inference, got one compiled "
                                 "for training",
                     "train it with pipe-run --train, or compile the model without --train");
  if (options.training && plan.mode == Mode::Infer)
    return makeError(ExitCode::Usage,
                     directory + ": expected an artifact compiled for training, got one compiled "
                                 "for inference",
                     "compile the model with pipe-compile --train");
  if (options.training && !plan.training)
    return makeError(ExitCode::Version,
                     directory + ": expected a plan that says what is trained, as format 1.2 does, "
                                 "got none",
                     "compile the model again");
  return llvm::Error::success();
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

/// A training may run under any schedule, each of which has its own place for the stages.
llvm::Error Pipeline::Impl::placeRanks(const PipelineOptions &options) {
  Plan &plan = core->artifact.plan;
  if (!options.training || (options.scheduleName.empty() && options.scheduleCsv.empty()))
    return llvm::Error::success();
  if (!options.scheduleCsv.empty()) {
    llvm::Expected<Schedule> table = scheduleFromCsv(options.scheduleCsv);
    if (!table)
      return table.takeError();
    llvm::Expected<TableShape> shape = checkTable(*table, nullptr);
    if (!shape)
      return withContext(shape.takeError(), "--schedule");
    if (shape->stages != plan.stages.size())
      return failf(ExitCode::Usage, "--schedule: expected a table of {} stages, got {}",
                   plan.stages.size(), shape->stages);
    plan.microBatches = shape->microBatches;
    wanted = shape->microBatches;
    place({{}, shape->rankOfStage, table->ranks.size()}, plan);
    return llvm::Error::success();
  }
  const size_t ranks = ranksThatFit(options.scheduleName, plan.stages.size(), plan.ranks);
  llvm::Expected<PlacedSchedule> placed =
      namedSchedule(options.scheduleName, plan.stages.size(), ranks,
                    options.microBatches ? options.microBatches : plan.microBatches);
  if (!placed)
    return placed.takeError();
  isPlanned = options.scheduleName == plan.scheduleName && placed->ranks == plan.ranks;
  if (!isPlanned)
    place(*placed, plan);
  return llvm::Error::success();
}

/// A given schedule is for one number of micro-batches. A generated one is made when the batch is
/// known, so a number that is too large costs nothing.
llvm::Error Pipeline::Impl::prepareProgram(const PipelineOptions &options) {
  const Plan &plan = core->artifact.plan;
  if (!options.training && !options.scheduleName.empty() && options.scheduleName != "forward-only")
    return makeError(ExitCode::Usage,
                     "schedule " + options.scheduleName + ": expected forward-only or a CSV file");
  scheduleName = generatedName(plan, options);
  anyNumber = !scheduleName.empty();
  wanted = options.microBatches;
  microBatches = wanted ? wanted : std::max<int64_t>(plan.microBatches, 1);
  if (anyNumber)
    return llvm::Error::success();
  llvm::Expected<Schedule> schedule = givenSchedule(core->artifact, options);
  if (!schedule)
    return schedule.takeError();
  return core->prepare(*schedule, microBatches);
}

llvm::Expected<Schedule> Pipeline::Impl::generatedSchedule(int64_t number) const {
  const Plan &plan = core->artifact.plan;
  if (core->training) {
    // What was planned for this number, with the costs of this model.
    if (scheduleName == plan.scheduleName && number == plan.microBatches && isPlanned)
      return scheduleFromCsv(core->artifact.scheduleCsv);
    llvm::Expected<PlacedSchedule> placed =
        namedSchedule(scheduleName, plan.stages.size(), plan.ranks, number);
    if (!placed)
      return placed.takeError();
    return std::move(placed->schedule);
  }
  return forwardOnly(plan, number);
}

void Pipeline::Impl::startThreads(const PipelineOptions &options) {
  size_t ranks = core->artifact.plan.ranks;
  threadsPerRank = options.threads > 0 ? options.threads
                   : options.training  ? 1
                                       : defaultThreads(ranks);
  KeepThreadCount keep;
  threads = std::make_unique<RankThreads>(
      ranks, [count = threadsPerRank,
              train = options.training.has_value()](const std::function<void()> &serve) {
        ThreadSettings settings(count);
        std::optional<TrainingSettings> withGradients;
        if (train)
          withGradients.emplace(count);
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
  if (llvm::Error error = prepareFor(number))
    return std::move(error);
  return parts;
}

llvm::Error Pipeline::Impl::prepareFor(int64_t number) {
  if (!core->program || core->program->microBatches != number) {
    llvm::Expected<Schedule> schedule = generatedSchedule(number);
    if (!schedule)
      return schedule.takeError();
    if (llvm::Error error = core->prepare(*schedule, number))
      return error;
  }
  microBatches = number;
  return llvm::Error::success();
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
    if (llvm::Error error = guardTorchVoid(ExitCode::Other, "device " + device->name(), [&] {
          result = device->bring(std::move(result), *device);
        }))
      return error;
  return finishDevices();
}

/// Leaves are in the core's data afterwards.
llvm::Error Pipeline::Impl::runBatch(BatchParts &parts, const std::vector<c10::IValue> &inputs,
                                     StepStats *stats) {
  StepData &data = core->data;
  data.step = calls;
  data.inputs = std::move(parts.inputs);
  data.leaves.assign(microBatches,
                     std::vector<c10::IValue>(core->artifact.plan.signature.leaves.size()));
  if (llvm::Error error = finishDevices()) // the caller's work on them may have made the inputs
    return error;
  auto start = std::chrono::steady_clock::now();
  if (llvm::Error error = runStep(inputs))
    return error;
  if (llvm::Error error = finishDevices())
    return error;
  int64_t makespanNs = (std::chrono::steady_clock::now() - start) / std::chrono::nanoseconds(1);
  if (stats)
    measure(*stats, makespanNs);
  data.inputs.clear();
  return llvm::Error::success();
}

/// Of a call: keeps its state, or restores the one from before it.
llvm::Error Pipeline::Impl::endCall(llvm::Error error) {
  if (!error) {
    for (auto &executor : core->executors)
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
  if (options.microBatches < 0 || options.threads < 0 || options.dynamic < 0)
    return makeError(ExitCode::Usage,
                     "micro-batches, threads and dynamic: expected at least 1, or 0 for none");
  llvm::Expected<Artifact> artifact = openArtifact(directory);
  if (!artifact)
    return artifact.takeError();
  return Impl::load(std::move(*artifact), options);
}

llvm::Expected<Pipeline> Pipeline::Impl::load(Artifact artifact, const PipelineOptions &options) {
  const std::string directory = artifact.directory;
  if (llvm::Error error = checkMode(directory, artifact.plan, options))
    return std::move(error);
  if (llvm::Expected<Program> program = checkSchedule(artifact.scheduleCsv, artifact.plan);
      !program)
    return withContext(program.takeError(), directory + ": schedule.csv");
  auto impl = std::make_unique<Impl>();
  impl->core = std::make_shared<PipelineCore>();
  PipelineCore &core = *impl->core;
  core.artifact = std::move(artifact);
  core.data.seed = options.seed;
  core.inFlight = options.dynamic;
  if (options.training)
    core.training = *options.training;
  // The program first: a schedule that does not fit is refused before any stage file is read.
  if (llvm::Error error = impl->placeRanks(options))
    return error;
  if (llvm::Error error = impl->openDevices(options))
    return error;
  if (llvm::Error error = impl->prepareProgram(options))
    return error;
  if (llvm::Error error = impl->loadStages())
    return error;
  if (options.training)
    if (llvm::Error error = impl->startTraining(*options.training))
      return error;
  if (llvm::Error error = proveStages(directory, core.artifact.plan))
    return withContext(std::move(error), directory);
  if (options.training && !options.training->evaluation.empty())
    if (llvm::Error error = impl->startEvaluation(options))
      return std::move(error);
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

llvm::Expected<RunTrace> Pipeline::trace() const {
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
  if (impl.core->training)
    return makeError(ExitCode::Usage, "infer: expected a pipeline without training options",
                     "call step(), or load an artifact that was compiled for inference");
  if (llvm::Error error = impl.usableAgain())
    return std::move(error);
  llvm::Expected<BatchParts> parts = impl.split(inputs);
  if (!parts)
    return parts.takeError();
  llvm::Error error = impl.runBatch(*parts, inputs, stats);
  std::optional<c10::IValue> result;
  if (!error) {
    std::vector<std::vector<c10::IValue>> leaves = std::move(impl.core->data.leaves);
    c10::AutoGradMode noGrad(false);
    llvm::Expected<c10::IValue> merged =
        mergeOutputs(impl.core->artifact.plan.signature, leaves, parts->samples,
                     stats ? &stats->warnings : nullptr);
    if (merged) {
      result = std::move(*merged);
      error = impl.giveAway(*result);
    } else {
      error = merged.takeError();
    }
  }
  if (llvm::Error ended = impl.endCall(std::move(error)))
    return std::move(ended);
  return std::move(*result);
}

} // namespace pipec
