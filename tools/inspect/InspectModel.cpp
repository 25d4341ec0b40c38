#include "tools/inspect/InspectModel.h"

#include "compiler/cost/ModuleCosts.h"
#include "ir/support/Json.h"
#include "ir/support/ShownStream.h"
#include "ir/support/Try.h"
#include "llvm/Support/FileSystem.h"
#include "tools/cli/LoadLibrary.h"
#include "tools/cli/ModelPrints.h"
#include "tools/report/ModuleTable.h"

namespace pipec {

namespace {

void printDocument(const InspectCommand &command, const std::vector<ModuleNode> &modules,
                   const std::optional<ModuleCosts> &costs) {
  llvm::json::Object options{{"model", command.model.getValue()},
                             {"method", command.method.getValue()},
                             {"load_library", llvm::json::Array(command.libraries)}};
  if (given(command.inputs))
    options["inputs"] = command.inputs.getValue();
  toStdout() << printJson(llvm::json::Object{{"schema_version", 1},
                                             {"options", std::move(options)},
                                             {"modules", modulesJson(modules, costs)}});
}

} // namespace

llvm::Error inspectModel(const InspectCommand &command) {
  for (const auto &[option, asked] : {std::pair{"--schedule", command.schedule},
                                      {"--html", given(command.html)},
                                      {"--trace", given(command.trace)},
                                      {"--comms", given(command.comms)}})
    if (asked && llvm::sys::fs::exists(command.model))
      return makeError(ExitCode::Usage,
                       fmt::format("{}: expected an artifact, got a TorchScript file", option),
                       "compile it first, then inspect the artifact");
  if (given(command.method) && !given(command.inputs))
    return makeError(
        ExitCode::Usage, "--method: expected --inputs with it, got none",
        "--method chooses which method gets the inputs; the modules are those of the file");
  for (const std::string &library : command.libraries)
    TRY(loadLibrary(library));
  const ModuleTree tree = TRY(readModuleTree(command.model, command.method));
  std::optional<ModuleCosts> costs;
  if (given(command.inputs)) {
    sendModelPrintsToStderr();
    costs = TRY(moduleCosts(command.model, command.method, command.inputs));
  }
  if (command.json)
    printDocument(command, tree.modules, costs);
  else
    printModules(toStdout(), tree.modules, costs);
  for (const std::string &note : tree.trainingNotes)
    printNote(note);
  return llvm::Error::success();
}

} // namespace pipec
