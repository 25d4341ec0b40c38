#include "compiler/ModuleCosts.h"

#include "compiler/EstimateCosts.h"
#include "compiler/ExampleRuns.h"
#include "compiler/Import.h"
#include "compiler/Pipelines.h"
#include "ir/NodeInfo.h"
#include "ir/TorchError.h"
#include "ir/Values.h"
#include "passes/PassManager.h"
#include "passes/analysis/ModuleNames.h"
#include "passes/analysis/TopLevel.h"

namespace pipec {

namespace {

/// To the module, to those around it, and to the model.
void add(std::map<std::string, int64_t> &costs, std::string path, int64_t cost) {
  costs[""] += cost;
  while (!path.empty()) {
    costs[path] += cost;
    size_t dot = path.rfind('.');
    path = dot == std::string::npos ? "" : path.substr(0, dot);
  }
}

llvm::Expected<Model> normalised(const std::string &path, const std::string &method) {
  llvm::Expected<Model> imported = importModel(path, method);
  if (!imported)
    return imported;
  PassManagerOptions options;
  options.checkHonesty = false;
  PassManager manager(options);
  if (llvm::Error error = manager.addPipeline(frontPipeline(CompileOptions())))
    return std::move(error);
  AnyModel model = std::move(*imported);
  if (llvm::Expected<bool> changed = manager.run(model); !changed)
    return changed.takeError();
  noteWrites(std::get<Model>(model));
  return std::get<Model>(std::move(model));
}

llvm::Error measure(const std::string &path, const std::string &method, const std::string &inputs,
                    std::map<std::string, int64_t> &costs) {
  llvm::Expected<Model> model = normalised(path, method);
  if (!model)
    return model.takeError();
  llvm::Expected<Arguments> arguments = argumentsFromOption(inputs);
  if (!arguments)
    return arguments.takeError();
  auto values = bindArguments(model->signature, argumentTypes(*model), *arguments);
  if (!values)
    return values.takeError();
  std::vector<c10::IValue> given = *values; // as they were, should the model write into them
  if (llvm::Error error = estimateCosts(*model, std::move(*values)))
    return explainExample(withArguments(std::move(error), model->signature, given), path, {},
                          model->signature, given, std::vector<bool>(given.size()));
  TopLevel top = topLevelOf(*model);
  for (size_t i = 0; i < top.operators.size(); ++i)
    add(costs, withoutCallNumbers(modulePathOf(top.operators[i])), model->nodeCosts[i].flops);
  return llvm::Error::success();
}

} // namespace

llvm::Expected<std::map<std::string, int64_t>>
moduleCosts(const std::string &path, const std::string &method, const std::string &inputs) {
  std::map<std::string, int64_t> costs;
  if (llvm::Error error = guardTorchError(ExitCode::Internal, "estimating costs",
                                          [&] { return measure(path, method, inputs, costs); }))
    return std::move(error);
  return costs;
}

} // namespace pipec
