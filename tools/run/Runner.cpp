#include "tools/run/Runner.h"

#include "ir/ModelSignature.h"
#include "ir/support/Try.h"
#include "ir/support/Words.h"
#include "ir/values/BindArguments.h"
#include "runtime/Resources.h"
#include "tools/cli/CommandLine.h"
#include "tools/report/PlanReport.h"

namespace pipec {

namespace {

/// The last call of `pipeline` has succeeded.
llvm::Error noteTimes(const Pipeline &pipeline, RunTimes &times) {
  RunTrace run = TRY(pipeline.trace());
  times.add(std::move(run));
  return llvm::Error::success();
}

int64_t most(const std::vector<int64_t> &bytes) {
  return *std::max_element(bytes.begin(), bytes.end());
}
int64_t most(int64_t bytes) { return bytes; }

template <typename Trained> Trainer trainerOf(std::shared_ptr<Trained> trained) {
  return {
      [trained](const Trainer::Batches &batches, StepStats &stats) {
        return trained->stepOnBatches(batches, &stats);
      },
      [trained](const Trainer::Batches &cut, StepStats &stats) {
        return trained->stepOnMicroBatches(cut, &stats);
      },
      [trained](const std::string &text, int64_t steps) {
        return trained->setLearningRates(text, steps);
      },
      [trained](const std::vector<c10::IValue> &values) { return trained->evaluate(values); },
      [trained] { return c10::IValue(trained->gradients().ivalue()); },
      [trained] { return c10::IValue(trained->state().ivalue()); },
      [trained]() -> llvm::Expected<std::vector<std::string>> { return trained->unsavedState(); },
      {},
      {},
      [trained](const std::string &directory, const CheckpointOptions &options) {
        return trained->saveCheckpoint(directory, options);
      },
      [trained](const std::string &path, bool passOverDamaged) {
        return trained->resume(path, passOverDamaged);
      },
      [trained] { return most(trained->peakMemoryBytes()); }};
}

/// What --replicas auto has chosen.
void noteReplicas(const Pipeline &pipeline, const RunCommand &command) {
  const bool byCores =
      command.devices.empty() || command.devices == std::vector<std::string>{"cpu"};
  const std::string places = byCores ? counted(static_cast<size_t>(usableCores()), "core")
                                     : counted(command.devices.size(), "device");
  printNote(fmt::format("--replicas auto: {} of {} each, for {}",
                        counted(static_cast<size_t>(pipeline.replicas()), "replica"),
                        counted(pipeline.plan().ranks, "rank"), places));
}

/// A schedule places the stages anew, possibly on fewer ranks than the artifact was compiled for.
void noteRanks(const Pipeline &pipeline, const RunCommand &command) {
  const size_t now = pipeline.plan().ranks, compiled = pipeline.compiledRanks();
  if (now != compiled)
    printNote(fmt::format("{} runs the {} on {}; the artifact was compiled for {}",
                          command.schedule, counted(pipeline.plan().stages.size(), "stage"),
                          counted(now, "rank"), compiled));
}

llvm::Expected<Runner> pipelineRunner(const RunCommand &command, RunReport &report) {
  const PipelineOptions options = TRY(pipelineOptions(command));
  Pipeline loaded = TRY(Pipeline::load(command.model, options));
  auto pipeline = std::make_shared<Pipeline>(std::move(loaded));
  for (const std::string &warning : pipeline->warnings())
    printWarning(warning);
  for (const StagePlan &stage : pipeline->plan().stages)
    report.stages.push_back({modulesOf(stage), stage.rank});
  if (command.replicas == 0)
    noteReplicas(*pipeline, command);
  noteRanks(*pipeline, command);
  report.devices = pipeline->devices();
  report.threads = pipeline->threads();
  report.options["schedule"] =
      command.schedule.empty() ? pipeline->plan().scheduleName : command.schedule;
  auto times = std::make_shared<RunTimes>();
  const bool isTable = !options.scheduleCsv.empty() ||
                       (command.schedule.empty() && pipeline->plan().scheduleName == "table");
  std::optional<Trainer> trainer;
  if (command.training) {
    trainer = trainerOf(pipeline);
    for (auto *step : {&trainer->stepOnBatches, &trainer->stepOnMicroBatches})
      *step = [pipeline, times, inner = *step](const Trainer::Batches &batches,
                                               StepStats &stats) -> llvm::Expected<TrainedStep> {
        llvm::Expected<TrainedStep> done = inner(batches, stats);
        if (done)
          TRY(noteTimes(*pipeline, *times));
        return done;
      };
  }
  return Runner{
      [pipeline, times](const std::vector<c10::IValue> &values,
                        StepStats &stats) -> llvm::Expected<c10::IValue> {
        llvm::Expected<c10::IValue> result = pipeline->infer(values, &stats);
        if (result)
          TRY(noteTimes(*pipeline, *times));
        return result;
      },
      [pipeline]() -> const Signature & { return pipeline->plan().signature; },
      [pipeline](const Arguments &arguments) { return pipeline->bind(arguments); },
      [pipeline] { return pipeline->peakMemoryBytes(); },
      [] { return std::vector<std::string>(); },
      std::move(trainer),
      [pipeline] { return pipeline->microBatches(); },
      std::max<int64_t>(pipeline->plan().microBatches, 1) * pipeline->replicas(),
      isTable ? pipeline->microBatches() : 0,
      pipeline->replicas(),
      times,
      [pipeline]() -> const Plan & { return pipeline->plan(); },
      [pipeline](const std::vector<c10::IValue> &inputs) { return pipeline->check(inputs); }};
}

llvm::Expected<Runner> referenceRunner(const RunCommand &command, RunReport &report) {
  ReferenceOptions options = TRY(referenceOptions(command));
  Reference loaded = TRY(Reference::load(command.model, options));
  auto reference = std::make_shared<Reference>(std::move(loaded));
  std::optional<Trainer> trainer;
  if (command.training) {
    TRY(reference->train(command.training->training));
    trainer = trainerOf(reference);
  }
  report.stages.push_back({"the whole model", 0});
  report.devices = {reference->device()};
  report.threads = reference->threads();
  noteReferenceOptions(report);
  return Runner{[reference](const std::vector<c10::IValue> &values, StepStats &stats) {
                  return reference->infer(values, &stats);
                },
                [reference]() -> const Signature & { return reference->signature(); },
                [reference](const Arguments &arguments) {
                  return bindArguments(reference->signature(), reference->inputTypes(), arguments);
                },
                [reference] { return std::vector<int64_t>{reference->peakMemoryBytes()}; },
                [reference] {
                  for (const std::string &warning : reference->warnings())
                    printWarning(warning);
                  return reference->notes();
                },
                std::move(trainer),
                [reference] { return reference->microBatches(); },
                1,
                0,
                1,
                nullptr,
                nullptr};
}

} // namespace

llvm::Expected<Runner> makeRunner(const RunCommand &command, RunReport &report) {
  llvm::Expected<Runner> runner =
      command.isArtifact ? pipelineRunner(command, report) : referenceRunner(command, report);
  if (runner && runner->trainer) {
    runner->trainer->signature = runner->signature;
    runner->trainer->bind = runner->bind;
    runner->trainer->check = runner->check;
  }
  return runner;
}

} // namespace pipec
