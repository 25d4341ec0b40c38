// Faults in the weights: their elements, names, kinds, memory and owners.
#include "llvm/ADT/STLExtras.h"
#include "tests/support/faults/Faults.h"
#include "tests/support/faults/GraphEdits.h"

#include <ATen/core/Tensor.h>

namespace pipec::faults {

namespace {

bool isWeight(const Attribute &attribute) {
  return attribute.kind == AttributeKind::Parameter && attribute.value.isTensor();
}

/// The attributes hold views of the source file: a changed one is a copy.
bool changedTensor(StagedModel &model, llvm::function_ref<bool(const Attribute &)> suits,
                   llvm::function_ref<at::Tensor(const at::Tensor &)> change) {
  for (Attribute &attribute : llvm::reverse(model.attributes))
    if (attribute.value.isTensor() && attribute.value.toTensor().numel() > 0 && suits(attribute)) {
      const at::Tensor &tensor = attribute.value.toTensor();
      bool grad = tensor.requires_grad();
      at::Tensor changed = change(tensor.detach());
      attribute.value = changed.is_leaf() && changed.is_floating_point()
                            ? changed.set_requires_grad(grad)
                            : changed;
      return true;
    }
  return false;
}

at::Tensor withLastElementChanged(const at::Tensor &tensor) {
  at::Tensor copy = tensor.clone();
  at::Tensor last = copy;
  while (last.dim() > 0)
    last = last.select(0, -1);
  last.add_(1);
  return copy;
}

} // namespace

bool wrongWeight(StagedModel &model) {
  return changedTensor(model, isWeight, withLastElementChanged);
}

bool wrongConstantTensor(StagedModel &model) {
  return changedTensor(
      model, [](const Attribute &attribute) { return attribute.kind == AttributeKind::Constant; },
      withLastElementChanged);
}

bool wrongUnreadWeight(StagedModel &model) {
  auto unread = [&](const Attribute &attribute) {
    return llvm::all_of(model.stages, [&](const Stage &stage) {
      return llvm::all_of(stage.plan.attributes, [&](const StageAttribute &entry) {
        return entry.name != attribute.name || entry.uses == 0;
      });
    });
  };
  return changedTensor(
      model, [&](const Attribute &attribute) { return isWeight(attribute) && unread(attribute); },
      withLastElementChanged);
}

/// The same elements, other strides: the same numbers, until an operator adds them in another
/// order.
bool transposedWeight(StagedModel &model) {
  auto matrix = [](const Attribute &attribute) {
    return isWeight(attribute) && attribute.value.toTensor().dim() == 2;
  };
  return changedTensor(model, matrix,
                       [](const at::Tensor &tensor) { return tensor.t().contiguous().t(); });
}

bool wrongDtype(StagedModel &model) {
  return changedTensor(model, isWeight,
                       [](const at::Tensor &tensor) { return tensor.to(at::kDouble); });
}

bool wrongRequiresGrad(StagedModel &model) {
  for (Attribute &attribute : model.attributes)
    if (isWeight(attribute) && attribute.requiresGrad) {
      attribute.value = attribute.value.toTensor().detach();
      return true;
    }
  return false;
}

namespace {

using OnPair = llvm::function_ref<bool(Attribute &, Attribute &)>;

bool firstPairOfEqualShape(StagedModel &model, OnPair tryPair) {
  for (Attribute &a : model.attributes)
    for (Attribute &b : model.attributes)
      if (&a != &b && isWeight(a) && isWeight(b) && a.storage != b.storage &&
          a.value.toTensor().sizes() == b.value.toTensor().sizes() && tryPair(a, b))
        return true;
  return false;
}

} // namespace

/// Two objects of one type, such as the packed weights of two quantised layers.
bool swappedObjects(StagedModel &model) {
  for (Attribute &a : model.attributes)
    for (Attribute &b : model.attributes)
      if (&a != &b && a.value.isObject() && b.value.isObject() &&
          *a.value.type() == *b.value.type()) {
        std::swap(a.value, b.value);
        return true;
      }
  return false;
}

bool swappedWeights(StagedModel &model) {
  return firstPairOfEqualShape(model, [](Attribute &a, Attribute &b) {
    std::swap(a.value, b.value);
    std::swap(a.storage, b.storage);
    return true;
  });
}

namespace {

const Attribute &attributeOf(const StagedModel &model, const StageAttribute &entry) {
  return *llvm::find_if(model.attributes,
                        [&](const Attribute &attribute) { return attribute.name == entry.name; });
}

bool equalWeights(const StagedModel &model, const StageAttribute &a, const StageAttribute &b) {
  const Attribute &first = attributeOf(model, a), &second = attributeOf(model, b);
  return isWeight(first) && isWeight(second) && first.storage != second.storage &&
         first.value.toTensor().sizes() == second.value.toTensor().sizes();
}

} // namespace

/// An operator reads another weight of its stage.
bool wrongBias(StagedModel &model) {
  for (Stage &stage : llvm::reverse(model.stages))
    for (size_t a = 0; a < stage.plan.attributes.size(); ++a)
      for (size_t b = a + 1; b < stage.plan.attributes.size(); ++b)
        if (equalWeights(model, stage.plan.attributes[a], stage.plan.attributes[b]) &&
            usesOf(stage, inputOf(stage, a)) > 0 && usesOf(stage, inputOf(stage, b)) > 0) {
          exchangeInputs(stage, inputOf(stage, a), inputOf(stage, b));
          return true;
        }
  return false;
}

bool lostWeight(StagedModel &model) {
  for (Stage &stage : model.stages)
    for (size_t i = stage.plan.attributes.size(); i-- > 0;) {
      const StageAttribute &entry = stage.plan.attributes[i];
      if (entry.uses != 0 || entry.channel || entry.kind == AttributeKind::Constant ||
          !stage.plan.weightChannelsOut.empty())
        continue;
      for (StageOutput &output : stage.plan.outputs)
        if (output.state && *output.state > i)
          --*output.state;
      eraseInput(stage, inputOf(stage, i));
      stage.plan.attributes.erase(stage.plan.attributes.begin() + i);
      return true;
    }
  return false;
}

/// The state dict loses a name of a tied weight.
bool lostName(StagedModel &model) {
  for (Stage &stage : model.stages)
    for (StageAttribute &entry : stage.plan.attributes)
      if (!entry.otherNames.empty() && !entry.channel) {
        entry.otherNames.clear();
        return true;
      }
  return false;
}

bool wrongKind(StagedModel &model) {
  for (Stage &stage : model.stages)
    for (StageAttribute &entry : stage.plan.attributes)
      if (entry.kind == AttributeKind::Parameter && !entry.channel) {
        entry.kind = AttributeKind::Buffer;
        return true;
      }
  return false;
}

/// Two tensors that see the same memory in the source no longer do.
bool lostOverlap(StagedModel &model) {
  for (Attribute &a : model.attributes)
    for (Attribute &b : model.attributes)
      if (&a != &b && a.storage >= 0 && a.storage == b.storage &&
          a.kind != AttributeKind::Constant) {
        for (const Attribute &attribute : model.attributes)
          b.storage = std::max(b.storage, attribute.storage + 1);
        b.value = b.value.toTensor().clone();
        return true;
      }
  return false;
}

/// The last stage's copy of a tied weight is another one, under the weight's other name.
bool wrongTie(StagedModel &model) {
  for (const Tie &tie : model.ties)
    for (StageAttribute &entry : model.stages[tie.stages.back()].plan.attributes)
      if (entry.otherNames.size() > 0 && llvm::is_contained(tie.names, entry.name) &&
          !entry.channel) {
        Attribute copy = attributeOf(model, entry);
        copy.value = withLastElementChanged(copy.value.toTensor().detach())
                         .set_requires_grad(entry.requiresGrad);
        std::swap(entry.name, entry.otherNames[0]);
        copy.name = entry.name;
        copy.otherNames = entry.otherNames;
        copy.storage = static_cast<int64_t>(model.attributes.size()) + 1000;
        model.attributes.push_back(std::move(copy));
        return true;
      }
  return false;
}

/// A stage is sent another weight than the one it asks for.
bool wrongWeightChannel(StagedModel &model) {
  for (Channel &channel : model.channels) {
    if (channel.kind != Channel::Kind::Weight)
      continue;
    const std::vector<StageAttribute> &owned = model.stages[channel.from.stage].plan.attributes;
    for (size_t i = 0; i < owned.size(); ++i)
      if (i != channel.from.port && !owned[i].channel &&
          equalWeights(model, owned[i], owned[channel.from.port])) {
        channel.from.port = i;
        return true;
      }
  }
  return false;
}

} // namespace pipec::faults
