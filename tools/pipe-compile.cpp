// pipe-compile: cuts a saved TorchScript model into pipeline stages and writes the artifact.
#include "compiler/CompileReproducer.h"
#include "ir/support/ShownStream.h"
#include "ir/support/Try.h"
#include "llvm/Support/raw_ostream.h"
#include "passes/PassTable.h"
#include "tools/cli/FreedMemory.h"
#include "tools/cli/LoadLibrary.h"
#include "tools/cli/ModelPrints.h"
#include "tools/cli/ProgressLine.h"
#include "tools/cli/TorchMain.h"
#include "tools/compile/CompileOutputs.h"
#include "tools/report/CompileReport.h"
#include "tools/report/PassTimeReport.h"

using namespace pipec;

namespace {

std::vector<std::string> commandLine; // as it was typed, for a reproducer

llvm::Expected<CompileReport> compileOrTry(Compiler &compiler, CompileCommand &command) {
  std::optional<ProgressLine> progress;
  if (!command.json && command.options.printAfter.empty()) { // whose text takes the terminal
    progress.emplace();
    command.options.progress = progress->callback();
  }
  if (!command.dryRun)
    return compiler.compile(command.options, command.target, command.force);
  Compiled compiled = TRY(compiler.compile(command.options));
  return compiled.report();
}

std::string lastLine(const CompileCommand &command) {
  if (!command.dryRun)
    return "wrote " + command.target;
  return command.dumps
             ? "dry run: nothing was written except the dumps in " + command.options.dumpDir
             : "dry run: nothing was written";
}

llvm::Expected<ExitCode> run() {
  CompileCommand command = TRY(readCompileCommand(commandLine));
  if (command.printPipeline) {
    toStdout() << Compiler::pipelineText(command.options) << '\n';
    return ExitCode::Success;
  }
  for (const std::string &library : command.libraries)
    TRY(loadLibrary(library));
  sendModelPrintsToStderr();
  keepFreedMemory();
  TRY(refuseExistingCosts(command));
  Compiler compiler = TRY(loadWith(command.model, command.internal));
  std::optional<CaseWriter> caseWriter = TRY(beginCase(command));
  CompileReport report = TRY(compileOrTry(compiler, command));
  if (caseWriter)
    TRY(finishCase(*caseWriter, report.plan, command));
  TRY(writeCosts(command, report));
  for (const std::string &warning : report.warnings)
    printWarning(warning);
  for (const std::string &note : report.notes)
    printNote(note);
  if (command.json) {
    llvm::json::Object document = reportJson(report);
    document["options"] = optionsJson(command.target, report);
    if (command.timing)
      document["passes"] = passTimesJson(report.passes);
    toStdout() << llvm::formatv("{0:2}", llvm::json::Value(std::move(document))) << '\n';
    return ExitCode::Success;
  }
  if (command.timing)
    printPassTimes(toStderr(), report.passes);
  printReport(toStdout(), report);
  toStdout() << '\n' << lastLine(command) << '\n';
  if (command.recordCase)
    toStdout() << "recorded " << *command.recordCase << '\n';
  return ExitCode::Success;
}

ReproducerParts reproducerParts() {
  ReproducerParts parts;
  if (llvm::Expected<CompileCommand> command = readCompileCommand(commandLine))
    parts.about = reproducerAbout(command->model, command->options);
  else
    llvm::consumeError(command.takeError()); // the error that the reproducer is of came first
  return parts;
}

llvm::Error traceInto(const std::string &directory) {
  CompileCommand command = TRY(readCompileCommand(commandLine));
  for (const std::string &library : command.libraries)
    TRY(loadLibrary(library));
  sendModelPrintsToStderr();
  Compiler compiler = TRY(loadWith(command.model, command.internal));
  return compiler.trace(command.options, directory);
}

} // namespace

int main(int argc, char **argv) {
  commandLine.assign(argv, argv + argc);
  return toolMain(argc, argv,
                  {"pipe-compile",
                   "cuts a saved TorchScript model into pipeline stages",
                   "MODEL.pt [options]",
                   {"pipe-compile model.pt --stages 4 --inputs 'f32[8,3,224,224]'",
                    "pipe-compile model.pt --ranks 4 --inputs x.pt --train --batch 256 "
                    "--memory-limit 16GiB --dry-run",
                    "pipe-compile model.pt --at encoder.layers.6 -o model.pipe"},
                   reproducerParts,
                   traceInto,
                   {{"PASS", passNames()}}},
                  run);
}
