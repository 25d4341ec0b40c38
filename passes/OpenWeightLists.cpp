#include "ir/TensorKey.h"
#include "passes/Passes.h"

#include <torch/csrc/jit/ir/ir.h>

#include <map>
#include <optional>

namespace pipec {

using torch::jit::Node;
using torch::jit::Use;
using torch::jit::Value;

namespace {

class OpenWeightLists : public ModelPass {
public:
  llvm::Expected<bool> run(Model &model, PassContext &) override {
    const size_t arguments = model.argumentCount();
    std::map<TensorKey, size_t> tensors; // the first attribute that is this tensor
    for (size_t i = 0; i < model.attributes.size(); ++i)
      if (const Attribute &attribute = model.attributes[i];
          attribute.value.isTensor() && attribute.value.toTensor().defined() && !attribute.written)
        tensors.emplace(keyOf(attribute.value.toTensor()), i);
    bool changed = false;
    for (size_t i = model.attributes.size(); i-- > 0;) {
      const std::optional<std::vector<size_t>> parts = partsOf(model.attributes[i], tensors);
      if (!parts)
        continue;
      std::vector<Value *> values;
      for (size_t part : *parts)
        values.push_back(model.graph->inputs()[arguments + part]);
      replaceReads(*model.graph->inputs()[arguments + i], values);
      model.graph->eraseInput(arguments + i);
      model.attributes.erase(model.attributes.begin() + static_cast<int64_t>(i));
      for (size_t &state : model.stateOutputs)
        state -= state > i;
      for (auto &[key, number] : tensors)
        number -= number > i;
      changed = true;
    }
    return changed;
  }

private:
  /// The attributes that are its elements; nothing: it is no such list.
  static std::optional<std::vector<size_t>> partsOf(const Attribute &attribute,
                                                    const std::map<TensorKey, size_t> &tensors) {
    if (attribute.kind != AttributeKind::Value || attribute.written ||
        !attribute.value.isTensorList() || attribute.value.toTensorVector().empty())
      return std::nullopt;
    std::vector<size_t> parts;
    for (const at::Tensor &tensor : attribute.value.toTensorVector()) {
      const auto found = tensor.defined() ? tensors.find(keyOf(tensor)) : tensors.end();
      if (found == tensors.end())
        return std::nullopt;
      parts.push_back(found->second);
    }
    return parts;
  }

  /// A list of its own for each reader: it is made in the reader's stage.
  static void replaceReads(Value &list, const std::vector<Value *> &values) {
    const std::vector<Use> uses = list.uses(); // changes
    for (const Use &use : uses) {
      Node *make = list.owningGraph()->createList(c10::TensorType::get(), values);
      make->insertBefore(use.user)->copyMetadata(use.user);
      use.user->replaceInput(use.offset, make->output());
    }
  }
};

} // namespace

PassInfo openWeightLists() {
  return {.name = "open-weight-lists",
          .description = "makes lists of tensors that are attributes themselves, as recurrent "
                         "layers hold their weights, out of these attributes",
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
