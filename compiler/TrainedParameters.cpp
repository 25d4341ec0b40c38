#include "compiler/TrainedParameters.h"

#include "ir/Refusals.h"
#include "ir/TensorKey.h"
#include "ir/autograd/ModelGradients.h"
#include "ir/support/Try.h"
#include "ir/text/TensorText.h"
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

/// The tensors of an attribute that is no module, also those of objects.
void forEachHeldTensor(const c10::IValue &value,
                       llvm::function_ref<void(const at::Tensor &)> visit) {
  std::set<const void *> objects; // those seen so far, because an object may hold itself
  value.visit([&](const c10::IValue &part) {
    if (part.isTensor() && part.toTensor().defined())
      visit(part.toTensor());
    return part.isObject() &&
           (part.toObjectRef().type()->is_module() || !objects.insert(&part.toObjectRef()).second);
  });
}

/// Stages that have memory of their own would train two tensors of one memory apart.
llvm::Error refuseOverlaps(const torch::jit::Module &module) {
  std::vector<at::Tensor> tensors;
  std::vector<std::string> names;
  std::set<const void *> seen;
  for (const bool inContainers : {false, true}) // a tensor that is both has its own name
    for (const auto &attribute : module.named_attributes(/*recurse=*/true))
      if (attribute.value.isTensor() != inContainers)
        forEachHeldTensor(attribute.value, [&](const at::Tensor &tensor) {
          if (seen.insert(tensor.unsafeGetTensorImpl()).second) {
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

/// As the author of the model calls it.
std::string describeContainer(const c10::IValue &value) {
  if (value.isObject())
    return "an object of class " + value.type()->expectRef<c10::ClassType>().name()->name();
  if (value.isTuple())
    return "a Tuple";
  return value.isList() ? "a List" : "a Dict";
}

/// Of the containers that forward reads, open-weight-lists has left these. Objects are in the model
/// as their parts, which are attributes under other names than the parameters'.
llvm::Error refuseTrainedContainers(const StagedModel &model, const torch::jit::Module &module,
                                    const std::vector<TrainedTensor> &parameters) {
  std::map<const void *, std::string> nameOf; // only looked up
  for (const TrainedTensor &parameter : parameters)
    nameOf[parameter.tensor.unsafeGetTensorImpl()] = parameter.names.front();
  std::set<std::string> read;
  for (const Attribute &attribute : model.attributes)
    if (!attribute.value.isTensor())
      read.insert(attribute.name);
  for (const auto &attribute : module.named_attributes(/*recurse=*/true)) {
    if (!attribute.value.isObject() && !read.count(attribute.name))
      continue;
    bool isTrained = false, isNameless = false;
    std::string parameter; // the first in it
    forEachHeldTensor(attribute.value, [&](const at::Tensor &tensor) {
      if (!tensor.requires_grad())
        return;
      const auto known = nameOf.find(tensor.unsafeGetTensorImpl());
      isTrained = true;
      isNameless |= known == nameOf.end();
      if (known != nameOf.end() && parameter.empty())
        parameter = known->second;
    });
    const std::string kind = isTrained ? describeContainer(attribute.value) : "";
    if (isNameless)
      return refuseWith(Refusal::TrainedContainer, attribute.name, kind);
    if (isTrained)
      return refuseWith(Refusal::ParameterInContainer, attribute.name, kind, parameter,
                        attribute.name, parameter);
  }
  return llvm::Error::success();
}

} // namespace

llvm::Expected<TrainingPlan> trainingPlanOf(const StagedModel &model, const Plan &plan,
                                            const LossLeaves &loss, SourceCopies &copies) {
  const torch::jit::Module source = TRY(copies.next(Prints::Removed));
  const std::vector<TrainedTensor> tensors = trainedTensors(source);
  TRY(refuseTrainedContainers(model, source, tensors));
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
