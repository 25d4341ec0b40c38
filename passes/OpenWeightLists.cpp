#include "ir/TensorKey.h"
#include "ir/support/Try.h"
#include "ir/values/MapTensors.h"
#include "passes/Passes.h"
#include "passes/attributes/SpelledConstant.h"

#include <torch/csrc/jit/ir/ir.h>

#include <map>

namespace pipec {

using torch::jit::Use;
using torch::jit::Value;

namespace {

class OpenWeightLists : public ModelPass {
public:
  llvm::Expected<bool> run(Model &model, PassContext &) override {
    const size_t arguments = model.argumentCount();
    for (size_t i = 0; i < model.attributes.size(); ++i)
      if (const Attribute &attribute = model.attributes[i];
          attribute.value.isTensor() && attribute.value.toTensor().defined() && !attribute.written)
        tensors_.emplace(keyOf(attribute.value.toTensor()), model.graph->inputs()[arguments + i]);
    bool changed = false;
    for (size_t i = model.attributes.size(); i-- > 0;) {
      if (!canBeMade(model.attributes[i]))
        continue;
      TRY(replaceReads(*model.graph->inputs()[arguments + i], model.attributes[i]));
      model.graph->eraseInput(arguments + i);
      model.attributes.erase(model.attributes.begin() + static_cast<int64_t>(i));
      for (size_t &state : model.stateOutputs)
        state -= state > i;
      changed = true;
    }
    return changed;
  }

private:
  bool canBeMade(const Attribute &attribute) const {
    const c10::IValue &value = attribute.value;
    const bool isContainer = value.isList() || value.isTuple() || value.isGenericDict();
    return attribute.kind == AttributeKind::Value && !attribute.written && isContainer &&
           !tensorsIn(value).empty() && isMadeOfAttributes(value);
  }

  /// Whether its tensors are attributes, and all else in it can be a constant.
  bool isMadeOfAttributes(const c10::IValue &value) const {
    auto isMade = [this](const c10::IValue &part) { return isMadeOfAttributes(part); };
    if (value.isTensor())
      return value.toTensor().defined() && tensors_.count(keyOf(value.toTensor()));
    if (value.isList())
      return llvm::all_of(value.toListRef(), isMade);
    if (value.isTuple())
      return llvm::all_of(value.toTupleRef().elements(), isMade);
    if (value.isGenericDict()) {
      for (const auto &entry : value.toGenericDict())
        if (entry.key().isTensor() || !isMade(entry.value()))
          return false;
      return true;
    }
    return value.isScalar() || value.isString() || value.isNone() || value.isDevice();
  }

  /// A container of its own for each reader: it is made in the reader's stage.
  llvm::Error replaceReads(Value &container, const Attribute &attribute) const {
    const std::vector<Use> uses = container.uses(); // changes
    for (const Use &use : uses) {
      const torch::jit::WithInsertPoint guard(use.user);
      Value *made = TRY(
          spelledConstant(attribute.value, container.type(), attribute.name, use.user,
                          [this](const at::Tensor &tensor) { return tensors_.at(keyOf(tensor)); }));
      use.user->replaceInput(use.offset, made);
    }
    return llvm::Error::success();
  }

  std::map<TensorKey, Value *> tensors_; // the input of the first attribute that is this tensor
};

} // namespace

PassInfo openWeightLists() {
  return {.name = "open-weight-lists",
          .description = "makes lists, tuples and dicts of tensors that are attributes themselves, "
                         "as recurrent layers hold their weights, out of these attributes",
          .requires_ = "attributes are graph inputs",
          .guarantees = "a weight that is trained is read under its own name",
          .example = R"(
    %r : Tensor = aten::lstm(%x, %h, %_flat_weights, ...)
    =>
    %1 : Tensor[] = prim::ListConstruct(%weight_ih_l0, %weight_hh_l0)
    %r : Tensor = aten::lstm(%x, %h, %1, ...))",
          .make = withoutOptions<OpenWeightLists>()};
}

} // namespace pipec
