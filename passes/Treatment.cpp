#include "passes/Treatment.h"

#include "llvm/ADT/STLExtras.h"
#include "passes/analysis/MemoryTypes.h"
#include "passes/analysis/OperatorFacts.h"

#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

using torch::jit::Node;
using torch::jit::Value;

Treatment treatmentOf(const Node *node) {
  const c10::FunctionSchema *schema = node->maybeSchema();
  if (!schema || !node->blocks().empty() || node->kind() == c10::prim::SetAttr ||
      node->kind() == c10::prim::TupleUnpack || node->kind() == c10::prim::TupleIndex)
    return Treatment::HandsOn;
  bool writes = false, writesOut = false;
  for (const c10::Argument &argument : schema->arguments()) {
    const bool isTensor = argument.type()->kind() == c10::TypeKind::TensorType;
    const bool isWritten = argument.alias_info() && argument.alias_info()->isWrite();
    if (argument.type()->hasFreeVariables() || (isWritten && !isTensor))
      return Treatment::HandsOn;
    writes |= isWritten;
    writesOut |= isWritten && argument.kwarg_only();
  }
  if (writes && !writesOut && node->kind().is_aten() && mayChangeForm(node))
    return Treatment::HandsOn;
  const bool makes = llvm::any_of(
      node->outputs(), [](const Value *output) { return holdsTensors(*output->type()); });
  return writes || makes ? Treatment::Computes : Treatment::Nothing;
}

} // namespace pipec
