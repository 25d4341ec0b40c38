#include "tools/run/InferCommand.h"

#include "ir/TorchError.h"
#include "ir/batch/MicroBatch.h"
#include "ir/support/ShownStream.h"
#include "ir/support/Try.h"
#include "ir/values/DescribedArguments.h"
#include "ir/values/MapTensors.h"
#include "ir/values/ValueFiles.h"
#include "tools/cli/ToolMain.h"
#include "tools/run/RunNotes.h"

#include <ATen/core/Tensor.h>

namespace pipec {

namespace {

llvm::Expected<std::vector<c10::IValue>> readInputs(const RunCommand &command,
                                                    const Runner &runner) {
  Arguments arguments;
  auto check = [&](const Arguments &shapes) -> llvm::Error {
    const auto values = TRY(runner.bind(shapes));
    return runner.check ? runner.check(values) : llvm::Error::success();
  };
  if (!command.inputs.empty())
    arguments = TRY(argumentsFromOption(command.inputs, check));
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
    if (i >= command.warmup)
      report.add(stats);
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

} // namespace

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

} // namespace pipec
