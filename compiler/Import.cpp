#include "compiler/Import.h"

#include "ir/MicroBatch.h"

#include "ir/ModelSignature.h"
#include "ir/TorchError.h"
#include "ir/TorchFile.h"
#include "ir/artifact/StageModule.h"
#include "passes/analysis/AliasAnalysis.h"

#include <ATen/Context.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>

#include <map>
#include <set>

namespace pipec {

llvm::Expected<Model> importModel(const std::string &path, const std::string &method) {
  llvm::Expected<torch::jit::Module> module = loadMapped(path);
  if (!module)
    return module.takeError();
  llvm::Expected<torch::jit::Method> found = methodOf(*module, path, method);
  if (!found)
    return found.takeError();
  return guardTorch(ExitCode::Unreadable, path + ": LibTorch cannot read method " + method, [&] {
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

namespace {

/// Two attributes of these names cannot be in one stage file: one is called as the other, or as a
/// module that holds the other.
bool clash(llvm::StringRef a, llvm::StringRef b) {
  return a == b || (a.startswith(b) && a[b.size()] == '.') ||
         (b.startswith(a) && b[a.size()] == '.');
}

/// A tensor of the method's text that the method writes keeps what was written, as a buffer does: a
/// stage file holds it, under a name that goes together with those of all attributes.
void makeBuffer(Model &model, Attribute &constant) {
  auto isFree = [&](const std::string &name) {
    return llvm::none_of(model.attributes, [&](const Attribute &other) {
      return &other != &constant && (clash(name, other.name) ||
                                     llvm::any_of(other.otherNames, [&](const std::string &also) {
                                       return clash(name, also);
                                     }));
    });
  };
  constant.kind = AttributeKind::Buffer;
  auto [folder, number] = llvm::StringRef(constant.name).split('.');
  std::string first = folder.str();
  const std::string last = number.str();
  while (!isFree(constant.name))
    constant.name = (first += "_") + "." + last;
}

} // namespace

void noteWrites(Model &model) {
  AliasAnalysis alias(model);
  for (size_t i = 0; i < model.argumentCount(); ++i)
    model.signature.inputs[i].written = alias.isWrittenInside(model.graph->inputs()[i]);
  for (size_t i = 0; i < model.attributes.size(); ++i) {
    Attribute &attribute = model.attributes[i];
    // What wrote a tensor may be gone by now: a branch for training, or for what was not asked.
    const bool before = attribute.written && !attribute.value.isTensor();
    attribute.written = before || llvm::is_contained(model.stateOutputs, i) ||
                        alias.isWrittenInside(model.graph->inputs()[model.argumentCount() + i]);
  }
  for (Attribute &attribute : model.attributes)
    if (attribute.kind == AttributeKind::Constant && attribute.written)
      makeBuffer(model, attribute);
}

std::set<int64_t> onlyAssignedStorages(const Model &model) {
  std::map<int64_t, size_t> holders;
  std::set<int64_t> candidates;
  for (const Attribute &attribute : model.attributes)
    ++holders[attribute.storage];
  for (const Attribute &attribute : model.attributes)
    if (attribute.storage >= 0 && attribute.written && holders[attribute.storage] > 1)
      candidates.insert(attribute.storage);
  if (candidates.empty()) // nearly always: the analysis takes time
    return candidates;
  AliasAnalysis alias(model);
  for (size_t i = 0; i < model.attributes.size(); ++i)
    if (alias.isWrittenInside(model.graph->inputs()[model.argumentCount() + i]))
      candidates.erase(model.attributes[i].storage);
  return candidates;
}

llvm::Expected<std::vector<c10::IValue>> runFresh(const std::string &path,
                                                  const std::string &method, const SourceMode &mode,
                                                  std::vector<std::vector<c10::IValue>> calls,
                                                  uint64_t seed) {
  llvm::Expected<torch::jit::Module> module = loadSource(path, mode);
  if (!module)
    return module.takeError();
  return guardTorch(ExitCode::Usage, "running the model on the example inputs", [&] {
    std::vector<c10::IValue> results;
    for (std::vector<c10::IValue> &inputs : calls) {
      at::manual_seed(seed); // of each call: an unused draw at the end of one changes no other
      results.push_back(ownCopies(runMethod(*module, method, std::move(inputs))).front());
    }
    return results;
  });
}

} // namespace pipec
