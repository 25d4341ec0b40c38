#include "passes/Treatment.h"

#include "ir/NodeInfo.h"
#include "llvm/ADT/STLExtras.h"
#include "passes/analysis/MemoryTypes.h"
#include "passes/analysis/OperatorFacts.h"

#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

using torch::jit::Node;
using torch::jit::Value;

/// Whether it changes a list or dict itself: append, sort. The schema of a library's operator may
/// say so of one that writes the tensors in it.
static bool changesContainer(const Node *node, size_t argument) {
  return (node->kind().is_aten() || node->kind().is_prim()) && !writesElements(node, argument);
}

Treatment treatmentOf(const Node *node) {
  const c10::FunctionSchema *schema = node->maybeSchema();
  if (!schema || !node->blocks().empty() || node->kind() == c10::prim::SetAttr ||
      node->kind() == c10::prim::TupleUnpack || node->kind() == c10::prim::TupleIndex)
    return Treatment::HandsOn;
  bool writes = false, writesOut = false;
  for (size_t i = 0; i < schema->arguments().size(); ++i) {
    const c10::Argument &argument = schema->arguments()[i];
    const bool isTensor = argument.type()->kind() == c10::TypeKind::TensorType;
    const bool isWritten = argument.alias_info() && argument.alias_info()->isWrite();
    if (argument.type()->hasFreeVariables() ||
        (isWritten && !isTensor && changesContainer(node, i)))
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
