#include "passes/ReturnedArgument.h"

#include "ir/support/StringSwitch.h"

#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

using torch::jit::Node;
using torch::jit::Value;

bool mayReturnArgument(const Node *node) {
  if (!node->kind().is_aten() || node->inputs().empty())
    return false;
  return StringSwitch<bool>(node->kind().toUnqualString())
      .Cases({"contiguous", "to", "type_as", "cpu", "cuda", "pin_memory", "as_tensor"}, true)
      .Cases({"_to_cpu", "_cast_Float", "_cast_Double", "_cast_Half", "_cast_Byte"}, true)
      .Cases({"_cast_Char", "_cast_Int", "_cast_Long", "_cast_Short", "lift", "lift_fresh"}, true)
      .Cases({"to_dense", "coalesce", "dequantize", "_autocast_to_full_precision"}, true)
      .Cases({"_autocast_to_reduced_precision", "sum_to_size", "_grad_sum_to_size"}, true)
      .Cases({"conj", "conj_physical", "resolve_conj", "resolve_neg", "real", "positive"}, true)
      .Cases({"dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout"}, true)
      .Cases({"flatten", "adjoint", "matrix_H", "atleast_1d", "atleast_2d", "atleast_3d"}, true)
      .Cases({"broadcast_tensors", "cartesian_prod", "chain_matmul"}, true)
      .Default(false);
}

std::optional<size_t> writtenAs(const Node *node, size_t result) {
  const c10::FunctionSchema &schema = node->schema();
  const c10::AliasInfo *returned =
      result < schema.returns().size() ? schema.returns()[result].alias_info() : nullptr;
  if (!returned || !returned->isWrite())
    return std::nullopt;
  for (size_t i = 0; i < schema.arguments().size(); ++i)
    if (const c10::AliasInfo *argument = schema.arguments()[i].alias_info();
        argument && argument->isWrite() && argument->beforeSets() == returned->beforeSets())
      return i;
  return std::nullopt;
}

Value *insertChoice(Node *origin, Value *made, Value *given, Value *instead, Value *otherwise) {
  torch::jit::Graph &graph = *origin->owningGraph();
  Node *same = graph.insertNode(graph.create(c10::aten::__is__, {made, given}));
  same->copyMetadata(origin);
  same->output()->setType(c10::BoolType::get());
  Node *choice = graph.insertNode(graph.create(c10::prim::If, {same->output()}));
  choice->copyMetadata(origin);
  choice->addBlock()->registerOutput(instead);
  choice->addBlock()->registerOutput(otherwise);
  return choice->output()->setType(c10::TensorType::get());
}

} // namespace pipec
