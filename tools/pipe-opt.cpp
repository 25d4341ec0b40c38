// pipe-opt: runs passes on text, for tests and debugging. Models in, models out.
#include "compiler/Import.h"
#include "compiler/PassDumps.h"
#include "compiler/PipelineTable.h"
#include "ir/support/CannotRead.h"
#include "ir/support/Llvm.h"
#include "ir/support/ShownStream.h"
#include "ir/support/Try.h"
#include "ir/support/WriteFile.h"
#include "ir/text/ModelParser.h"
#include "ir/text/ScriptSource.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include "passes/PassManager.h"
#include "passes/PassTable.h"
#include "tools/cli/LoadLibrary.h"
#include "tools/cli/ToolMain.h"
#include "tools/report/RefusalTable.h"

#include <unistd.h>

using namespace pipec;
namespace cl = llvm::cl;

namespace {

cl::OptionCategory category("pipe-opt");
cl::opt<std::string> file(cl::Positional, cl::desc("FILE.ir | FILE.pt | -"), cl::init("-"),
                          cl::cat(category));
StringOption passes(
    "passes",
    cl::desc("the pipeline: a,b{option=1},fixpoint(c,d); # starts a comment. The output of "
             "pipe-compile --print-pipeline runs too, except for the steps that need example "
             "inputs: types and costs (choose-cuts by cost reads costs from the text)"),
    cl::value_desc("PASS,..."), cl::cat(category));
FlagOption
    torchscript("torchscript",
                cl::desc("FILE holds TorchScript source: attributes and methods of one module"),
                cl::cat(category));
StringOption method("method", cl::desc("the method to read from a module (default: forward)"),
                    cl::init("forward"), cl::value_desc("NAME"), cl::cat(category));
StringListOption libraries("load-library",
                           cl::desc("load custom operators from a shared library; may be repeated"),
                           cl::value_desc("LIB.so"), cl::cat(category));
StringOption
    dataDirectory("data",
                  cl::desc("directory of the weights that the text refers to as data=@FILE"),
                  cl::value_desc("DIR"), cl::cat(category));
FlagOption verifyEach("verify-each",
                      cl::desc("verify the model after each pass that changed it (default: true)"),
                      cl::init(true), cl::cat(category));
FlagOption printPipeline("print-pipeline",
                         cl::desc("print the pipeline to stderr before running it"),
                         cl::cat(category));
StringOption printAfter("print-after",
                        cl::desc("print the model to stderr after each run of a pass"),
                        cl::value_desc("PASS|all"), cl::cat(category));
FlagOption printChanged("print-changed",
                        cl::desc("print the model to stderr after each pass that changed it"),
                        cl::cat(category));
FlagOption printScopes("print-scopes", cl::desc("end each node with the module it came from"),
                       cl::cat(category));
FlagOption printDigests("print-digests", cl::desc("print sha256 of every weight (default: true)"),
                        cl::init(true), cl::cat(category));
FlagOption timing("timing", cl::desc("print the time of each pass to stderr"), cl::cat(category));
FlagOption listPasses("list-passes", cl::desc("list all passes and exit"), cl::cat(category));
FlagOption listPassesMarkdown("list-passes-markdown", cl::desc("print docs/passes.md and exit"),
                              cl::cat(category));
FlagOption listRefusals("list-refusals", cl::desc("print the table of refusals as JSON and exit"),
                        cl::cat(category));
FlagOption listRefusalsMarkdown("list-refusals-markdown",
                                cl::desc("print docs/refusals.md and exit"), cl::cat(category));

llvm::Expected<std::vector<ParsedModel>> readModule(llvm::Expected<Model> model) {
  if (!model)
    return model.takeError();
  std::vector<ParsedModel> models;
  models.push_back({std::move(*model), {}, {}});
  return models;
}

std::string inputText; // as it was read, for a reproducer too

bool readsModule() { return endsWith(file, ".pt"); }

llvm::Error readText() {
  if (!given(file) && ::isatty(STDIN_FILENO))
    return makeError(ExitCode::Usage, "missing argument FILE",
                     "usage: pipe-opt FILE [--passes PIPELINE] [options]; - reads standard input");
  auto buffer = llvm::MemoryBuffer::getFileOrSTDIN(file);
  if (!buffer)
    return cannotRead(file, buffer.getError());
  inputText = (*buffer)->getBuffer().str();
  if (file == "-" && inputText.empty())
    return makeError(ExitCode::Usage, "standard input: expected a model as text, got nothing",
                     "name a file: pipe-opt FILE");
  return llvm::Error::success();
}

llvm::Expected<std::vector<ParsedModel>> parseInput() {
  std::string directory = dataDirectory;
  if (directory.empty())
    directory = llvm::sys::path::parent_path(file).str();
  llvm::Expected<std::vector<ParsedModel>> models =
      parseModels(inputText, directory.empty() ? "." : directory);
  if (models && models->empty())
    return makeError(ExitCode::Unreadable, "expected at least one model, got none",
                     "docs/ir.md describes the text");
  return models;
}

llvm::Expected<std::vector<ParsedModel>> readInput() {
  if (readsModule() && torchscript)
    return makeError(ExitCode::Usage,
                     "--torchscript: expected TorchScript source, got " + file + ", a saved module",
                     "leave --torchscript out");
  if (readsModule())
    return readModule(importModel(file, method));
  TRY(readText());
  const auto named = [&](llvm::Error error) { return withContext(std::move(error), file); };
  if (torchscript) {
    llvm::Expected<Model> model = modelFromSource(inputText, method);
    return model ? readModule(std::move(model)) : named(model.takeError());
  }
  llvm::Expected<std::vector<ParsedModel>> models = parseInput();
  return models ? std::move(models) : named(models.takeError());
}

bool namesWeights() { return !torchscript && llvm::StringRef(inputText).contains("data=@"); }

/// The text as read, without references to weights in other files.
std::string textWithoutWeights() {
  llvm::Expected<std::vector<ParsedModel>> models = parseInput();
  if (!models) {
    llvm::consumeError(models.takeError());
    return inputText;
  }
  std::string all;
  for (const ParsedModel &parsed : *models)
    if (llvm::Expected<std::string> text = PassDumps::text(parsed.model, parsed.costs))
      all += (all.empty() ? "" : "# -----\n") + *text;
    else
      llvm::consumeError(text.takeError());
  return all;
}

/// A module has no text before its calls are inlined, so this writes its text after each pass that
/// changed it.
void dumpPasses(const std::string &directory) {
  PassDumps dumps(directory + "/passes");
  PassManagerOptions options;
  options.verifyEach = verifyEach;
  options.afterPass = [&](const PassRun &run) { return dumps.write(run); };
  PassManager manager(options);
  llvm::Expected<Model> imported = importModel(file, method);
  llvm::Error error = imported ? manager.addPipeline(passes) : imported.takeError();
  if (!error) {
    AnyModel model = std::move(*imported);
    error = manager.run(model).takeError();
  }
  llvm::consumeError(std::move(error)); // the reason of the failure is known already
}

std::string inputName() { return torchscript ? "input.ts" : "input.ir"; }

ReproducerParts reproducerParts() {
  ReproducerParts parts;
  parts.files.emplace_back("pipeline.txt", passes + "\n");
  if (readsModule()) {
    parts.about = "model " + file +
                  "\n\npasses/ holds the model after each pass that changed it. A pass that fails "
                  "is replayed on\nthe text before it:\n\n"
                  "    pipe-opt passes/NN-PASS.ir --passes 'the passes of pipeline.txt after "
                  "PASS'\n";
    return parts;
  }
  if (inputText.empty() && file != "-") // after a crash
    llvm::consumeError(readText());
  if (!namesWeights())
    parts.files.emplace_back(inputName(), inputText);
  parts.about = "\nThe input is replayed by\n\n    pipe-opt " + inputName() +
                (torchscript ? " --torchscript --method " + method : "") +
                " --passes \"$(cat pipeline.txt)\"\n";
  return parts;
}

llvm::Error traceInto(const std::string &directory) {
  for (const std::string &library : libraries)
    TRY(loadLibrary(library));
  if (readsModule())
    dumpPasses(directory);
  else if (namesWeights())
    if (std::error_code code = writeFile(directory + "/" + inputName(), textWithoutWeights()))
      return failf(ExitCode::IO, "{}: cannot write: {}", inputName(), code.message());
  return llvm::Error::success();
}

void printTimings(const PassManager &manager) {
  for (const PassManager::Timing &row : manager.timings())
    toStderr() << fmt::format("{:>10.3f} ms  {} runs, {} changed  {}\n",
                              static_cast<double>(row.ns) / 1e6, row.runs, row.changes, row.name);
}

llvm::Expected<ExitCode> run() {
  if (listPasses || listPassesMarkdown) {
    if (listPassesMarkdown)
      printPipelineMarkdown(toStdout());
    listPassesMarkdown ? printPassesMarkdown(toStdout()) : printPassList(toStdout());
    return ExitCode::Success;
  }
  if (listRefusals || listRefusalsMarkdown) {
    listRefusalsMarkdown ? printRefusalsMarkdown(toStdout()) : printRefusalsJson(toStdout());
    return ExitCode::Success;
  }
  for (const std::string &library : libraries)
    TRY(loadLibrary(library));
  PassManagerOptions options;
  options.verifyEach = verifyEach;
  options.printAfter = printAfter;
  options.printChanged = printChanged;
  PassManager manager(options);
  TRY(manager.addPipeline(passes));
  if (std::string nearest;
      !printAfter.empty() && printAfter != "all" && !findPass(printAfter, &nearest))
    return makeError(
        ExitCode::Usage, "--print-after: expected a pass or all, got " + printAfter.getValue(),
        nearest.empty() ? "pipe-opt --list-passes names them" : "did you mean " + nearest + "?");
  if (printPipeline)
    toStderr() << manager.text() << "\n";
  std::vector<ParsedModel> models = TRY(readInput());
  TextOptions text;
  text.scopes = printScopes;
  text.digests = printDigests;
  bool first = true;
  for (ParsedModel &parsed : models) {
    PassContext context;
    context.costs = std::move(parsed.costs);
    TRY(manager.run(parsed.model, context).takeError());
    text.notes = &parsed.notes;
    text.costs = &context.costs;
    std::string out = TRY(toText(parsed.model, text));
    toStdout() << (first ? "" : "# -----\n") << out;
    first = false;
  }
  if (timing)
    printTimings(manager);
  return ExitCode::Success;
}

} // namespace

int main(int argc, char **argv) {
  return toolMain(argc, argv,
                  {"pipe-opt",
                   "runs compiler passes on a model in text form",
                   "FILE [--passes PASS,...] [options]",
                   {"pipe-opt model.ir --passes 'dead-code'",
                    "pipe-opt model.pt --passes inline,lower-attributes", "pipe-opt --list-passes"},
                   reproducerParts,
                   traceInto,
                   {{"PASS", passNames()}}},
                  run);
}
