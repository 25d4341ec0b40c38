// pipe-run: runs an artifact, or a plain TorchScript file as the reference that artifacts must
// equal.
#include "ir/TorchError.h"
#include "ir/batch/FixedBatch.h"
#include "ir/batch/MicroBatch.h"
#include "ir/plan/PlanNames.h"
#include "ir/support/ShownStream.h"
#include "ir/support/Try.h"
#include "ir/support/Words.h"
#include "ir/values/CompareValues.h"
#include "ir/values/DescribedArguments.h"
#include "ir/values/MapTensors.h"
#include "ir/values/ValueFiles.h"
#include "runtime/Device.h"
#include "tools/cli/ArtifactParts.h"
#include "tools/cli/FreedMemory.h"
#include "tools/cli/LoadLibrary.h"
#include "tools/cli/ModelPrints.h"
#include "tools/cli/OutputFile.h"
#include "tools/cli/TorchMain.h"
#include "tools/run/Runner.h"
#include "tools/run/TraceFile.h"
#include "tools/run/TrainCommand.h"

#include <ATen/core/Tensor.h>

using namespace pipec;

namespace {

llvm::Expected<std::vector<c10::IValue>> readInputs(const RunCommand &command,
                                                    const Runner &runner) {
  Arguments arguments;
  if (!command.inputs.empty())
    arguments = TRY(argumentsFromOption(command.inputs));
  auto values = runner.bind(arguments);
  if (values || !command.inputs.empty())
    return values;
  ErrorText text = describe(values.takeError());
  return makeError(
      text.code, text.message,
      "pass the batch: --inputs FILE, or a description as --inputs 'f32[8,3,224,224]'");
}

/// Runs warm-ups and timed runs; returns the result of the very first one, on the CPU.
llvm::Expected<c10::IValue> runAll(const RunCommand &command, const Runner &runner,
                                   const std::vector<c10::IValue> &inputs, RunReport &report) {
  std::optional<c10::IValue> first;
  for (int64_t i = 0; i < command.warmup + command.repeat; ++i) {
    StepStats stats;
    c10::IValue result = TRY(runner.infer(inputs, stats));
    const std::vector<std::string> said = first ? std::vector<std::string>() : stats.warnings;
    if (i >= command.warmup) {
      report.durationsNs.push_back(stats.makespanNs);
      report.steps.push_back(std::move(stats));
    }
    for (const std::string &warning : said)
      printWarning(warning);
    if (!first)
      first = std::move(result);
  }
  return guardTorch(ExitCode::Other, "reading the outputs", [&] {
    return mapTensors(*first, [](const at::Tensor &tensor) {
      return tensor.defined() ? tensor.to(at::kCPU) : tensor;
    });
  });
}

/// Without --microbatches, the batch decides how many there are.
void noteMicroBatches(const RunCommand &command, const Runner &runner, int64_t samples,
                      llvm::ArrayRef<c10::IValue> inputs) {
  const int64_t used = runner.microBatches();
  if (command.microBatches || used == runner.byDefault)
    return;
  const Signature &signature = runner.signature();
  std::string why = "the batch has " + counted(static_cast<size_t>(samples), "sample");
  if (samples == 0)
    why = isCut(signature) ? "the batch has no samples" : "no input has a batch dimension";
  else if (!signature.batchSymbolic)
    why += fmt::format(", and {} fix a micro-batch of {}", whatFixesBatch(signature, inputs),
                       signature.batchSize);
  printNote(fmt::format("running {} instead of the default {}: {}",
                        counted(static_cast<size_t>(used), "micro-batch"), runner.byDefault, why));
}

/// Of an artifact: what the simulator makes of the measured times, for the report and --trace.
llvm::Error noteTimes(const RunCommand &command, const Runner &runner, RunReport &report) {
  if (!runner.times || !runner.times->last())
    return llvm::Error::success();
  SimulatedRun predicted = TRY(runner.times->simulated(runner.plan()));
  report.predicted = {predicted.makespan,
                      {},
                      meanBubble(predicted, predicted.makespan),
                      meanBubble(predicted, predicted.longestSpan)};
  if (!command.trace)
    return llvm::Error::success();
  return writeFileFor(
      *command.trace,
      traceFile(*runner.times->last(), predicted,
                command.schedule.empty() ? runner.plan().scheduleName : command.schedule),
      command.force);
}

/// Trains and reports; inputs are read by the training.
llvm::Error trainAll(const RunCommand &command, const Runner &runner, RunReport &report) {
  TrainTarget target;
  target.inputs = command.inputs;
  target.output = command.output;
  target.seed = command.seed;
  target.replicas = command.replicas;
  target.microBatches = command.microBatches       ? *command.microBatches * command.replicas
                        : runner.fixedMicroBatches ? runner.fixedMicroBatches
                        : command.replicas > 1     ? command.replicas // one each at least
                                                   : 0;
  target.json = command.json;
  TRY(runTraining(*command.training, target, *runner.trainer, report));
  for (const std::string &note : runner.notes())
    printNote(note);
  report.microBatches = runner.microBatches();
  const StepSource &source = command.training->source;
  if (!source.presplit && source.accumulate == 1 && !report.durationsNs.empty())
    noteMicroBatches(command, runner, report.samples, {});
  noteOptions(command, report);
  report.peakMemoryBytes = runner.peakMemory();
  TRY(noteTimes(command, runner, report));
  if (command.json)
    printJson(report, toStdout());
  else if (!report.durationsNs.empty())
    printText(report, toStdout());
  return llvm::Error::success();
}

/// Runs the batch once or several times, and reports.
llvm::Error inferAll(const RunCommand &command, const Runner &runner,
                     const std::optional<c10::IValue> &expected, RunReport &report) {
  std::vector<c10::IValue> inputs = TRY(readInputs(command, runner));
  c10::IValue result = TRY(runAll(command, runner, inputs, report));
  for (const std::string &note : runner.notes())
    printNote(note);
  if (!command.output.empty())
    TRY(writeValue(command.output, result));
  report.microBatches = runner.microBatches();
  noteOptions(command, report);
  report.samples = batchSizeOr(0, runner.signature(), inputs); // 0: nothing is cut
  noteMicroBatches(command, runner, report.samples, inputs);
  report.peakMemoryBytes = runner.peakMemory();
  report.outputs = describeOutputs(result);
  TRY(noteTimes(command, runner, report));
  if (expected)
    report.comparison = compare(*expected, result, command.rtol, command.atol);
  if (command.json)
    printJson(report, toStdout());
  else
    printText(report, toStdout());
  return llvm::Error::success();
}

/// A GPU library must be there before anything looks for it.
llvm::Error openDevices(const RunCommand &command) {
  for (const std::string &name : command.devices)
    if (name != "cpu")
      if (llvm::Expected<std::shared_ptr<Device>> opened = makeDevice(name); !opened)
        return withContext(opened.takeError(), "--device");
  return llvm::Error::success();
}

llvm::Expected<ExitCode> run() {
  const RunCommand command = TRY(readRunCommand());
  TRY(openDevices(command));
  for (const std::string &path : command.libraries)
    TRY(loadLibrary(path));
  std::optional<c10::IValue> expected;
  if (!command.expect.empty()) // before the run, so that a missing file is found at once
    expected = TRY(readValue(command.expect));
  sendModelPrintsToStderr();
  keepFreedMemory();
  RunReport report;
  const Runner runner = TRY(makeRunner(command, report));
  if (command.training) {
    TRY(trainAll(command, runner, report));
    return ExitCode::Success;
  }
  TRY(inferAll(command, runner, expected, report));
  if (!report.comparison)
    return ExitCode::Success;
  printVerdict(report.comparison->equal, report.comparison->firstDifference, command.json);
  return report.comparison->equal ? ExitCode::Success : ExitCode::Mismatch;
}

} // namespace

int main(int argc, char **argv) {
  return toolMain(
      argc, argv,
      {"pipe-run",
       "runs a compiled pipeline, or the unsplit model as its reference",
       "MODEL.pipe|MODEL.pt [options]",
       {"pipe-run model.pt --inputs batch.pt --microbatches 4 --threads 1 --output expected.pt",
        "pipe-run model.pipe --inputs batch.pt --microbatches 4 --threads 1 --expect expected.pt "
        "--rtol 0 --atol 0",
        "pipe-run model.pipe --inputs 'f32[32,3,224,224]' --repeat 20 --warmup 3"},
       [] { return artifactParts(modelOfCommand()); }},
      run);
}
