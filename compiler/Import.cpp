#include "compiler/Import.h"

#include "ir/ModelSignature.h"
#include "ir/TorchError.h"
#include "ir/TorchFile.h"
#include "llvm/ADT/StringExtras.h"
#include "passes/analysis/AliasAnalysis.h"

#include <ATen/Context.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

namespace {

llvm::Error noSuchMethod(const std::string &path, const std::string &method,
                         const torch::jit::Module &module) {
  std::vector<std::string> names;
  for (const torch::jit::Method &other : module.get_methods())
    names.push_back(other.name());
  std::string help =
      names.empty()
          ? "the module has no methods at all: save it with torch.jit.script or torch.jit.trace"
          : "its methods are " + llvm::join(names, ", ") + ": choose one with --method";
  // No forward: no model. Another method was the user's choice.
  ExitCode code = method == "forward" ? ExitCode::Unreadable : ExitCode::Usage;
  return makeError(code, path + ": no method " + method, help);
}

} // namespace

llvm::Expected<Model> importModel(const std::string &path, const std::string &method) {
  llvm::Expected<torch::jit::Module> module = loadMapped(path);
  if (!module)
    return module.takeError();
  std::optional<torch::jit::Method> found = module->find_method(method);
  if (!found)
    return noSuchMethod(path, method, *module);
  return guardTorch(ExitCode::Unreadable, path, [&] {
    Model model;
    model.graph = torch::jit::toGraphFunction(found->function()).graph()->copy();
    model.signature = signatureOf(found->function().getSchema(), method);
    model.self = module->_ivalue();
    return model;
  });
}

std::vector<c10::TypePtr> argumentTypes(const Model &model) {
  std::vector<c10::TypePtr> types;
  for (size_t i = 0; i < model.argumentCount(); ++i)
    types.push_back(model.graph->inputs()[i]->type());
  return types;
}

void noteWrites(Model &model) {
  AliasAnalysis alias(model);
  for (size_t i = 0; i < model.argumentCount(); ++i)
    model.signature.inputs[i].written = alias.isWrittenInside(model.graph->inputs()[i]);
  for (size_t i = 0; i < model.attributes.size(); ++i)
    model.attributes[i].written |=
        alias.isWrittenInside(model.graph->inputs()[model.argumentCount() + i]);
}

llvm::Expected<c10::IValue> runFresh(const std::string &path, const std::string &method,
                                     const SourceMode &mode,
                                     std::vector<std::vector<c10::IValue>> calls, uint64_t seed) {
  llvm::Expected<torch::jit::Module> module = loadSource(path, mode);
  if (!module)
    return module.takeError();
  return guardTorch(ExitCode::Usage, "running the model on the example inputs", [&] {
    c10::IValue result;
    for (std::vector<c10::IValue> &inputs : calls) {
      at::manual_seed(seed); // of each call: an unused draw at the end of one changes no other
      result = module->get_method(method)(std::move(inputs));
    }
    return result;
  });
}

} // namespace pipec
