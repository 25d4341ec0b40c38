// How a pipeline is loaded: devices, program, stages, weights, threads.
#include "runtime/PipelineImpl.h"

#include "ir/TorchError.h"
#include "ir/artifact/ArtifactCheck.h"
#include "ir/autograd/TrainingSettings.h"
#include "ir/schedule/CheckSchedule.h"
#include "ir/support/Try.h"
#include "runtime/Replicas.h"
#include "runtime/Resources.h"
#include "runtime/ThreadSettings.h"

#include <c10/core/GradMode.h>

namespace pipec {

namespace {

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

} // namespace

llvm::Error Pipeline::Impl::openDevices(const PipelineOptions &options) {
  const Plan &plan = core->artifact.plan;
  std::vector<std::string> names =
      TRY(deviceNames(options.devices, plan.ranks * core->replicas, plan.stages.size()));
  for (const std::string &name : names) {
    std::shared_ptr<Device> device = TRY(makeDevice(name));
    core->devices.push_back(std::move(device));
  }
  return llvm::Error::success();
}

llvm::Error Pipeline::Impl::loadStages() {
  const Plan &plan = core->artifact.plan;
  for (size_t k = 0; k < core->replicas; ++k) {
    for (size_t s = 0; s < plan.stages.size(); ++s) {
      std::unique_ptr<StageExecutor> executor =
          TRY(StageExecutor::load(core->artifact.stagePath(s), plan.stages[s], s,
                                  core->devices[k * plan.ranks + plan.stages[s].rank]));
      core->executorsOf(k).push_back(std::move(executor));
    }
    TRY(deliverWeights(k));
  }
  return llvm::Error::success();
}

/// Delivers transmitted tied weights: the owner's tensor goes to each user once, without a copy on
/// one device.
llvm::Error Pipeline::Impl::deliverWeights(size_t replica) {
  const auto &executors = core->executorsOf(replica);
  for (const Channel &channel : core->artifact.plan.channels) {
    if (channel.kind != Channel::Kind::Weight)
      continue;
    StageExecutor &owner = *executors[channel.from.stage];
    for (const PortRef &to : channel.to) {
      StageExecutor &user = *executors[to.stage];
      TRY(guardTorchVoid(ExitCode::Other, "delivering weight " + channel.name, [&] {
        std::unique_ptr<Device::Scope> stream = user.device().enter(user.stream());
        c10::AutoGradMode noGrad(false);
        user.module().setAttribute(
            to.port,
            user.device().bring(owner.module().attribute(channel.from.port), owner.device()));
        user.device().finish();
      }));
    }
  }
  return llvm::Error::success();
}

void Pipeline::Impl::startThreads(const PipelineOptions &options) {
  size_t ranks = core->artifact.plan.ranks * core->replicas;
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
  runRanks = RankThreads::jobOf([core = core](size_t rank) { core->runRank(rank); });
}

llvm::Expected<Pipeline> Pipeline::Impl::load(Artifact artifact, const PipelineOptions &options) {
  const std::string directory = artifact.directory;
  TRY(checkMode(directory, artifact.plan, options));
  if (llvm::Expected<Program> program = checkSchedule(artifact.scheduleCsv, artifact.plan);
      !program)
    return withContext(program.takeError(), directory + ": schedule.csv");
  auto impl = std::make_unique<Impl>();
  impl->core = std::make_shared<PipelineCore>();
  PipelineCore &core = *impl->core;
  core.artifact = std::move(artifact);
  impl->compiledRanks = core.artifact.plan.ranks;
  core.data.seed = options.seed;
  core.inFlight = options.dynamic;
  if (options.training)
    core.training = *options.training;
  // The program first: a schedule that does not fit is refused before any stage file is read.
  TRY(impl->placeRanks(options));
  core.replicas = static_cast<size_t>(TRY(replicasOf(core.artifact.plan, options)));
  core.others.resize(core.replicas - 1);
  TRY(impl->openDevices(options));
  TRY(impl->prepareProgram(options));
  TRY(impl->loadStages());
  if (options.training)
    TRY(impl->startTraining(*options.training));
  if (llvm::Error error = proveStages(directory, core.artifact.plan))
    return withContext(std::move(error), directory);
  if (options.training && !options.training->evaluation.empty())
    TRY(impl->startEvaluation(options));
  impl->startThreads(options);
  return Pipeline(std::move(impl));
}

} // namespace pipec
