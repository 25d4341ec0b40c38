#include "compiler/samples/FixedNumbers.h"

#include "compiler/samples/SampleOperators.h"
#include "ir/NodeInfo.h"

#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

using torch::jit::Node;
using torch::jit::Value;

/// Whether the value is the same for every batch: it depends neither on elements of samples nor on
/// sizes that follow them.
static bool isGiven(const Value *value, const BatchForms &forms, int steps = 8) {
  const Node *node = value->node();
  const BatchForm &form = forms.of(value);
  if (node->kind() == c10::prim::Constant)
    return true;
  if (form.any() || form.isLong || (form.number && form.number->perBatch != 0))
    return false;
  if (node->kind() == c10::prim::Param)
    return node == node->owningGraph()->param_node();
  if (givesSize(node) && !node->inputs().empty() &&
      node->input(0)->node() == node->owningGraph()->param_node())
    return form.number.has_value();
  return steps > 0 && node->blocks().empty() && !node->inputs().empty() &&
         !node->isNondeterministic() && llvm::all_of(node->inputs(), [&](const Value *input) {
           return isGiven(input, forms, steps - 1);
         });
}

std::optional<int64_t> fixedInt(const Value *value, const BatchForms &forms) {
  if (value->node()->kind() == c10::prim::Constant)
    return constantInt(value);
  const std::optional<Dim> &number = forms.of(value).number;
  const bool isInt = value->type()->kind() == c10::TypeKind::IntType;
  return isInt && number && number->perBatch == 0 && isGiven(value, forms)
             ? std::optional(number->constant)
             : std::nullopt;
}

} // namespace pipec
