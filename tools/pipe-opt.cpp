// pipe-opt: runs passes on text, for tests and debugging. Models in, models out.
#include "compiler/PipelineTable.h"
#include "ir/support/ShownStream.h"
#include "ir/support/Try.h"
#include "llvm/Support/raw_ostream.h"
#include "passes/PassManager.h"
#include "passes/PassTable.h"
#include "passes/Registry.h"
#include "tools/cli/LoadLibrary.h"
#include "tools/cli/TorchMain.h"
#include "tools/opt/OptInput.h"
#include "tools/report/PassTimeReport.h"
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

/// After a crash the command line is read again, so the options are too.
OptInput &input() {
  static OptInput input;
  input.file = file;
  input.method = method;
  input.dataDirectory = dataDirectory;
  input.torchscript = torchscript;
  return input;
}

llvm::Error traceInto(const std::string &directory) {
  for (const std::string &library : libraries)
    TRY(loadLibrary(library));
  return input().trace(directory, passes, verifyEach);
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
  if (!given(file) && ::isatty(STDIN_FILENO))
    return makeError(ExitCode::Usage, "missing argument FILE",
                     "usage: pipe-opt FILE [--passes PIPELINE] [options]; - reads standard input");
  std::vector<ParsedModel> models = TRY(input().read());
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
    printPassTimes(toStderr(), manager.times());
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
                   [] { return input().parts(passes); },
                   traceInto,
                   {{"PASS", passNames()}}},
                  run);
}
