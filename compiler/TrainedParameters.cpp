#include "compiler/TrainedParameters.h"

#include "ir/Refusals.h"
#include "ir/TensorKey.h"
#include "ir/autograd/ModelGradients.h"
#include "ir/support/Try.h"
#include "ir/text/TensorText.h"
#include "ir/values/MapTensors.h"
#include "llvm/ADT/STLExtras.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/api/module.h>

#include <map>
#include <set>

namespace pipec {

namespace {

/// The uses of the stages by every name of their attributes, the last stage's first.
std::map<std::string, std::vector<PortRef>> usesByName(const Plan &plan) {
  std::map<std::string, std::vector<PortRef>> uses;
  for (size_t s = plan.stages.size(); s-- > 0;)
    for (size_t a = 0; a < plan.stages[s].attributes.size(); ++a) {
      const StageAttribute &attribute = plan.stages[s].attributes[a];
      if (!attribute.requiresGrad)
        continue;
      uses[attribute.name].push_back({s, a});
      for (const std::string &other : attribute.otherNames)
        uses[other].push_back({s, a});
    }
  return uses;
}

/// The tensors of an attribute, also those of an object whose class is no module. `objects`: those
/// seen so far, because an object may hold itself.
void forEachHeldTensor(const c10::IValue &value, std::set<const void *> &objects,
                       llvm::function_ref<void(const at::Tensor &)> visit) {
  if (!value.isObject())
    return forEachTensor(value, visit);
  const c10::ivalue::Object &object = value.toObjectRef();
  if (object.type()->is_module() || !objects.insert(&object).second)
    return;
  for (const c10::IValue &slot : object.slots())
    forEachHeldTensor(slot, objects, visit);
}

/// Stages that have memory of their own would train two tensors of one memory apart.
llvm::Error refuseOverlaps(const torch::jit::Module &module) {
  std::vector<at::Tensor> tensors;
  std::vector<std::string> names;
  std::set<const void *> seen, objects;
  for (const auto &attribute : module.named_attributes(/*recurse=*/true))
    forEachHeldTensor(attribute.value, objects, [&](const at::Tensor &tensor) {
      // A trained one in a container is a parameter under its own name, or was refused.
      const bool counts =
          attribute.value.isTensor() || (tensor.defined() && !tensor.requires_grad());
      if (counts && tensor.defined() && seen.insert(tensor.unsafeGetTensorImpl()).second) {
        tensors.push_back(tensor);
        names.push_back(attribute.name);
      }
    });
  const std::vector<int64_t> storages = storageIds(tensors);
  std::map<int64_t, std::vector<size_t>> byMemory;
  for (size_t i = 0; i < tensors.size(); ++i)
    if (storages[i] >= 0 && tensors[i].numel() > 0)
      byMemory[storages[i]].push_back(i);
  for (const auto &[storage, members] : byMemory)
    if (members.size() > 1 &&
        llvm::any_of(members, [&](size_t i) { return tensors[i].requires_grad(); }))
      return refuseWith(Refusal::ParametersOfOneMemory, names[members[0]], names[members[1]]);
  return llvm::Error::success();
}

bool isTrainedTensor(const at::Tensor &tensor) {
  return tensor.defined() && tensor.requires_grad();
}

/// Neither an optimizer nor a gradient has a name for them.
llvm::Error refuseTrainedContainers(const StagedModel &model, const torch::jit::Module &module) {
  auto refuse = [](const std::string &name, const c10::IValue &value) {
    return refuseWith(Refusal::TrainedContainer, name, value.tagKind());
  };
  for (const Attribute &attribute : model.attributes)
    if (!attribute.value.isTensor() && llvm::any_of(tensorsIn(attribute.value), isTrainedTensor))
      return refuse(attribute.name, attribute.value);
  // The model has their parts, as attributes of their own.
  for (const auto &attribute : module.named_attributes(/*recurse=*/true)) {
    bool holdsTrained = false;
    std::set<const void *> objects;
    if (attribute.value.isObject())
      forEachHeldTensor(attribute.value, objects,
                        [&](const at::Tensor &tensor) { holdsTrained |= isTrainedTensor(tensor); });
    if (holdsTrained)
      return refuse(attribute.name, attribute.value);
  }
  return llvm::Error::success();
}

} // namespace

llvm::Expected<TrainingPlan> trainingPlanOf(const StagedModel &model, const Plan &plan,
                                            const LossLeaves &loss, SourceCopies &copies) {
  const torch::jit::Module source = TRY(copies.next(Prints::Removed));
  const std::vector<TrainedTensor> tensors = trainedTensors(source);
  TRY(refuseTrainedContainers(model, source));
  TRY(refuseOverlaps(source));
  const std::map<std::string, std::vector<PortRef>> uses = usesByName(plan);
  TrainingPlan training;
  training.loss = loss.loss;
  training.count = loss.count;
  training.whyWhole.resize(plan.stages.size());
  for (const TrainedTensor &tensor : tensors) {
    llvm::Expected<std::string> dtype = dtypeText(tensor.tensor.scalar_type());
    if (!dtype)
      return withContext(dtype.takeError(), "--train: parameter " + tensor.names.front());
    TrainedParameter parameter;
    parameter.name = tensor.names.front();
    parameter.otherNames.assign(tensor.names.begin() + 1, tensor.names.end());
    parameter.dtype = *dtype;
    parameter.shape = tensor.tensor.sizes().vec();
    parameter.strides = tensor.tensor.strides().vec();
    for (const std::string &name : tensor.names)
      if (const auto found = uses.find(name); found != uses.end())
        for (const PortRef &use : found->second)
          parameter.uses.push_back(use);
    if (parameter.uses.empty())
      continue; // the method does not read it
    llvm::sort(parameter.uses, [](const PortRef &a, const PortRef &b) {
      return std::pair(b.stage, a.port) < std::pair(a.stage, b.port);
    });
    // Attributes of one stage that are one tensor have its gradient at the first.
    parameter.uses.erase(
        std::unique(parameter.uses.begin(), parameter.uses.end(),
                    [](const PortRef &a, const PortRef &b) { return a.stage == b.stage; }),
        parameter.uses.end());
    training.parameters.push_back(std::move(parameter));
  }
  return training;
}

} // namespace pipec
