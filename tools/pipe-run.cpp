// pipe-run: runs an artifact, or a plain TorchScript file as the reference that artifacts must
// equal.
#include "ir/support/Try.h"
#include "ir/values/ValueFiles.h"
#include "runtime/Device.h"
#include "tools/cli/ArtifactParts.h"
#include "tools/cli/FreedMemory.h"
#include "tools/cli/LoadLibrary.h"
#include "tools/cli/ModelPrints.h"
#include "tools/cli/TorchMain.h"
#include "tools/run/InferCommand.h"
#include "tools/run/TrainCommand.h"

using namespace pipec;

namespace {

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
  if (llvm::Error error = command.training ? trainAll(command, runner, expected, report)
                                           : inferAll(command, runner, expected, report)) {
    const ErrorText text = describe(std::move(error));
    if (text.code != ExitCode::Mismatch) // of --verify run
      return makeError(text.code, text.message, text.help);
    printVerdict(false, text.message, command.json);
    printNote(text.help);
    return ExitCode::Mismatch;
  }
  const bool isEqual = !report.comparison || report.comparison->equal;
  if (report.comparison || (command.training && command.training->training.verifySplit))
    printVerdict(isEqual, isEqual ? "" : report.comparison->firstDifference, command.json);
  return isEqual ? ExitCode::Success : ExitCode::Mismatch;
}

} // namespace

int main(int argc, char **argv) {
  ToolInfo info = {
      "pipe-run",
      "runs a compiled pipeline, or the unsplit model as its reference",
      "MODEL.pipe|MODEL.pt [options]",
      {"pipe-run model.pt --inputs batch.pt --microbatches 4 --threads 1 --output expected.pt",
       "pipe-run model.pipe --inputs batch.pt --microbatches 4 --threads 1 --expect expected.pt "
       "--rtol 0 --atol 0",
       "pipe-run model.pipe --inputs 'f32[32,3,224,224]' --repeat 20 --warmup 3"},
      [] { return artifactParts(modelOfCommand()); }};
  for (const char *name : {"lr", "learning-rate"})
    info.insteadOf[name] = "it with the optimizer, as in --optimizer sgd,lr=0.1";
  for (const char *name : {"momentum", "weight-decay"})
    info.insteadOf[name] =
        "it with the optimizer, as in --optimizer sgd,momentum=0.9,weight_decay=0.01";
  return toolMain(argc, argv, info, run);
}
