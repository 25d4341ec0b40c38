#include "ir/WholeNumbers.h"

#include "ir/Model.h"
#include "ir/support/StringSwitch.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"

#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

namespace {

using torch::jit::Block;
using torch::jit::Node;
using torch::jit::Value;

bool isWhole(const c10::Type &type) {
  switch (type.kind()) {
  case c10::TypeKind::IntType:
  case c10::TypeKind::BoolType:
    return true;
  case c10::TypeKind::ListType:
    return isWhole(*type.containedTypes()[0]);
  default:
    return false;
  }
}

/// Adds the names that a value gets if a loop carries it or a branch returns it.
void addOtherNames(const torch::jit::Use &use, llvm::SetVector<Value *> &names) {
  constexpr size_t kLoopsOwn = 2; // the number of iterations, and whether there is a first
  Node *node = use.user, *owner = node->owningBlock()->owningNode();
  if (node->kind() == c10::prim::Loop && use.offset >= kLoopsOwn) {
    names.insert(node->blocks()[0]->inputs()[use.offset - kLoopsOwn + 1]);
    names.insert(node->outputs()[use.offset - kLoopsOwn]);
  }
  if (node->kind() != c10::prim::Return || !owner)
    return;
  if (owner->kind() == c10::prim::If)
    names.insert(owner->outputs()[use.offset]);
  if (owner->kind() == c10::prim::Loop && use.offset > 0) {
    names.insert(owner->blocks()[0]->inputs()[use.offset]);
    names.insert(owner->outputs()[use.offset - 1]);
  }
}

/// A list that an operator fills or changes is an object, not a value. All its writers are in the
/// stage that makes it.
bool isChanged(Value *value) {
  llvm::SetVector<Value *> names;
  names.insert(value);
  for (size_t i = 0; i < names.size(); ++i)
    for (const torch::jit::Use &use : names[i]->uses()) {
      if (writes(use))
        return true;
      addOtherNames(use, names);
    }
  return false;
}

} // namespace

bool isWholeNumberOp(Node *node) {
  if (node->kind() == c10::prim::Uninitialized)
    return true;
  if (!node->blocks().empty() || node->outputs().size() != 1 || !isWhole(*node->output()->type()) ||
      isChanged(node->output()))
    return false;
  bool exact = StringSwitch<bool>(node->kind().toQualString())
                   .Cases({"aten::size", "aten::len", "aten::dim", "prim::ListConstruct",
                           "aten::__getitem__"},
                          true)
                   .Cases({"aten::add", "aten::sub", "aten::mul", "aten::floordiv", "aten::neg",
                           "aten::remainder"},
                          true)
                   .Cases({"aten::eq", "aten::ne", "aten::lt", "aten::le", "aten::gt", "aten::ge",
                           "aten::__not__"},
                          true)
                   .Cases({"prim::min", "prim::max", "aten::__and__", "aten::__or__"}, true)
                   .Default(false);
  if (!exact)
    return false;
  bool readsShape = node->kind() == c10::aten::size || node->kind() == c10::aten::len ||
                    node->kind() == c10::aten::dim;
  return llvm::all_of(node->inputs(), [&](Value *input) {
    return isWhole(*input->type()) ||
           (readsShape && input->type()->kind() == c10::TypeKind::TensorType);
  });
}

void countWholeNumberOps(const Block &block, std::map<std::string, int64_t> &counts) {
  for (const Node *node : block.nodes()) {
    if (isWholeNumberOp(const_cast<Node *>(node)))
      ++counts[node->kind().toQualString()];
    for (const Block *inner : node->blocks())
      countWholeNumberOps(*inner, counts);
  }
}

std::map<std::string, int64_t> countWholeNumberOps(const Model &model) {
  std::map<std::string, int64_t> counts;
  countWholeNumberOps(*model.graph->block(), counts);
  return counts;
}

} // namespace pipec
