#include "compiler/cost/ModuleCosts.h"

#include "compiler/FrontEnd.h"
#include "compiler/cost/EstimateCosts.h"
#include "ir/NodeInfo.h"
#include "ir/TorchError.h"
#include "ir/support/Try.h"
#include "ir/values/ArgumentText.h"
#include "ir/values/BindArguments.h"
#include "ir/values/DescribedArguments.h"
#include "passes/analysis/ModuleNames.h"
#include "passes/analysis/TopLevel.h"

namespace pipec {

namespace {

/// Adds the cost to the module, to the enclosing modules, and to the model.
void add(std::map<std::string, int64_t> &costs, std::string path, int64_t cost) {
  costs[""] += cost;
  while (!path.empty()) {
    costs[path] += cost;
    size_t dot = path.rfind('.');
    path = dot == std::string::npos ? "" : path.substr(0, dot);
  }
}

llvm::Error measure(const std::string &path, const std::string &method, const std::string &inputs,
                    std::map<std::string, int64_t> &costs) {
  CompileOptions options;
  options.method = method;
  CompileReport ignored;
  PassDumps dumps;
  Phases phases(ignored);
  PassContext context;
  Model model = TRY(FrontEnd(path, options, dumps, phases).flatten(context));
  Arguments arguments = TRY(argumentsFromOption(inputs));
  auto values = TRY(bindArguments(model.signature, argumentTypes(model), arguments));
  std::vector<c10::IValue> given = values; // copies, because the model may write into them
  llvm::Expected<std::vector<NodeCost>> estimated = estimateCosts(model, std::move(values));
  if (!estimated)
    return explainExample(withArguments(estimated.takeError(), model.signature, given), path, {},
                          model.signature, given, std::vector<bool>(given.size()));
  TopLevel top = topLevelOf(model);
  for (size_t i = 0; i < top.operators.size(); ++i)
    add(costs, withoutCallNumbers(modulePathOf(top.operators[i])), (*estimated)[i].flops);
  return llvm::Error::success();
}

} // namespace

llvm::Expected<std::map<std::string, int64_t>>
moduleCosts(const std::string &path, const std::string &method, const std::string &inputs) {
  std::map<std::string, int64_t> costs;
  TRY(guardTorchError(ExitCode::Internal, "estimating costs",
                      [&] { return measure(path, method, inputs, costs); }));
  return costs;
}

} // namespace pipec
