#include "passes/BareState.h"

#include "llvm/ADT/STLExtras.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

namespace {

using torch::jit::Node;

/// The value of an attribute of the model, if the node reads one.
std::optional<c10::IValue> attributeRead(Node *node, const Model &model) {
  if (node->kind() != c10::prim::GetAttr)
    return std::nullopt;
  const std::optional<c10::IValue> owner = node->input() == model.graph->inputs()[0]
                                               ? std::optional<c10::IValue>(model.self)
                                               : attributeRead(node->input()->node(), model);
  if (!owner || !owner->isObject())
    return std::nullopt;
  const std::optional<size_t> slot =
      owner->toObject()->type()->findAttributeSlot(node->s(c10::attr::name));
  return slot ? std::optional(owner->toObject()->getSlot(*slot)) : std::nullopt;
}

bool isBare(const at::Tensor &tensor) { return !tensor.requires_grad(); }

} // namespace

bool readsBareState(Node *node, const Model &model) {
  const std::optional<c10::IValue> read = attributeRead(node, model);
  if (!read)
    return false;
  return read->isTensorList() ? llvm::all_of(read->toTensorVector(), isBare)
                              : read->isNone() || (read->isTensor() && isBare(read->toTensor()));
}

} // namespace pipec
