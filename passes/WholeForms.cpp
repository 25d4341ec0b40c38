#include "passes/WholeForms.h"

#include "ir/NodeInfo.h"
#include "ir/support/StringSwitch.h"
#include "llvm/ADT/STLExtras.h"
#include "passes/ReturnedArgument.h"
#include "passes/analysis/MemoryTypes.h"
#include "passes/analysis/OperatorFacts.h"

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

namespace {

using torch::jit::Block;
using torch::jit::Graph;
using torch::jit::Node;
using torch::jit::Value;

/// The memory of an operator's result.
enum class ResultMemory {
  Own,        // its own, or it is the argument itself
  View,       // that of the first argument
  ViewOrCopy, // that of the first argument if the strides allow it
};

/// Whether the schema says so: of the result, or of the elements of a list.
bool declaresView(const c10::FunctionSchema &schema) {
  const c10::AliasInfo *given = schema.arguments()[0].alias_info();
  const c10::AliasInfo *made = schema.returns()[0].alias_info();
  if (!given || !made || made->isWrite())
    return false;
  const c10::AliasInfo &element =
      made->containedTypes().empty() ? *made : made->containedTypes()[0];
  return given->beforeSets() == element.beforeSets();
}

ResultMemory resultMemoryOf(const Node *node) {
  const c10::FunctionSchema *schema = node->maybeSchema();
  if (!schema || !node->kind().is_aten() || node->kind() == c10::aten::detach ||
      node->inputs().empty() || schema->returns().size() != 1 ||
      node->input(0)->type()->kind() != c10::TypeKind::TensorType)
    return ResultMemory::Own;
  const ResultMemory known =
      StringSwitch<ResultMemory>(node->kind().toUnqualString())
          .Cases({"reshape", "reshape_as", "flatten", "ravel"}, ResultMemory::ViewOrCopy)
          .Cases({"adjoint", "matrix_H", "real", "conj", "positive"}, ResultMemory::View)
          .Cases({"atleast_1d", "atleast_2d", "atleast_3d"}, ResultMemory::View)
          .Default(ResultMemory::Own);
  if (known != ResultMemory::Own || mayReturnArgument(node))
    return known;
  return declaresView(*schema) ? ResultMemory::View : ResultMemory::Own;
}

/// Whether the results are the arguments, or parts of them.
bool passesOn(const Node *node) {
  switch (node->kind()) {
  case c10::prim::ListConstruct:
  case c10::prim::ListUnpack:
  case c10::prim::TupleConstruct:
  case c10::prim::TupleUnpack:
  case c10::prim::TupleIndex:
  case c10::prim::unchecked_cast:
  case c10::aten::_unwrap_optional:
    return true;
  case c10::aten::__getitem__:
    return node->input(0)->type()->kind() == c10::TypeKind::ListType;
  default:
    return false;
  }
}

/// Whether an operator changes the list.
bool isWrittenList(const Value *value) {
  return value->type()->kind() == c10::TypeKind::ListType && llvm::any_of(value->uses(), writes);
}

/// Whether the value is an element of a list whose tensors are written, and not the list itself.
bool isOfWrittenTensors(const Value *value) {
  const Node *node = value->node();
  if (node->kind() != c10::prim::ListUnpack && node->kind() != c10::aten::__getitem__)
    return false;
  const Value *list = node->input(0);
  return list->node()->kind() == c10::prim::ListConstruct && isWrittenList(list) &&
         llvm::all_of(list->uses(), keepsElements);
}

/// The same operator of other first arguments.
Node *copyWith(Node *node, const std::vector<Value *> &given) {
  Node *copy = node->owningGraph()->createClone(node, [](Value *input) { return input; });
  for (size_t i = 0; i < given.size(); ++i)
    copy->replaceInput(i, given[i]);
  return copy->copyMetadata(node);
}

/// Inserts operators with the metadata of another one at the graph's insert point.
class Inserter {
public:
  explicit Inserter(Node *origin) : origin_(origin), graph_(*origin->owningGraph()) {}

  Value *truth(c10::Symbol kind, std::vector<Value *> inputs) const {
    return made(kind, std::move(inputs))->output()->setType(c10::BoolType::get());
  }

  Node *choice(Value *condition, llvm::function_ref<Value *()> first,
               llvm::function_ref<Value *()> second) const {
    Node *node = made(c10::prim::If, {condition});
    node->output()->setType(c10::TensorType::get());
    for (llvm::function_ref<Value *()> body : {first, second}) {
      Block *block = node->addBlock();
      torch::jit::WithInsertPoint inside(block);
      block->registerOutput(body());
    }
    return node;
  }

  /// The operator itself, of another first argument.
  Value *again(Value *argument) const {
    return graph_.insertNode(copyWith(origin_, {argument}))->output();
  }

  /// `whole` if both are one view, else `bare`.
  Value *wholeIfSame(Value *bare, Value *whole) const {
    return choice(
               truth(c10::Symbol::aten("is_set_to"), {bare, whole}), [&] { return whole; },
               [&] { return bare; })
        ->output();
  }

  Value *shareMemory(Value *one, Value *other) const {
    return truth(c10::Symbol::aten("is_set_to"), {beginOfMemory(one), beginOfMemory(other)});
  }

private:
  Node *made(c10::Symbol kind, std::vector<Value *> inputs) const {
    return graph_.insertNode(graph_.create(kind, inputs))->copyMetadata(origin_);
  }

  /// An empty tensor that is equal for all tensors of one memory.
  Value *beginOfMemory(Value *tensor) const {
    return made(c10::aten::as_strided,
                {tensor, graph_.insertConstant(std::vector<int64_t>{0}),
                 graph_.insertConstant(std::vector<int64_t>{1}), graph_.insertConstant(int64_t(0))})
        ->output();
  }

  Node *origin_;
  Graph &graph_;
};

/// Of what returns a view or a copy: the view of the whole argument, or the copy. Sizes and strides
/// decide, so the operator decides the same if it is computed again.
Node *viewOrCopy(Node *node, Value *whole) {
  torch::jit::WithInsertPoint guard(node->next());
  const Inserter insert(node);
  Value *bare = node->input(0);
  const auto view = [&] { return insert.again(whole); };
  return insert.choice(
      insert.truth(c10::Symbol::aten("is_contiguous"), {bare}), view, // of such a one, it is a view
      [&] {
        Value *isView = insert.shareMemory(insert.again(bare), bare);
        return insert.choice(isView, view, [&] { return node->output(); })->output();
      });
}

} // namespace

void WholeForms::addDetached(const Value *value, Value *whole) { sameAs_[value] = whole; }

void WholeForms::addChosen(Value *made, Value *chosen) {
  if (resultMemoryOf(made->node()) != ResultMemory::Own) {
    sameAs_[chosen] = made;
    return;
  }
  forms_[made] = chosen;
  forms_[chosen] = chosen;
}

Value *WholeForms::of(Value *value) {
  if (const auto known = forms_.find(value); known != forms_.end())
    return known->second;
  if (const auto same = sameAs_.find(value); same != sameAs_.end())
    return of(same->second);
  if (!holdsTensors(*value->type()) || isWrittenList(value))
    return value;
  Node *node = value->node();
  if (node->kind() == c10::prim::If)
    return ofBranches(value);
  if (isOfWrittenTensors(value))
    return ofWrittenTensors(value);
  const ResultMemory memory = resultMemoryOf(node);
  if (memory == ResultMemory::Own && !passesOn(node))
    return value;
  std::vector<Value *> wholes;
  bool isSame = true;
  for (Value *input : memory == ResultMemory::Own ? node->inputs() : node->inputs().slice(0, 1)) {
    wholes.push_back(of(input));
    isSame &= wholes.back() == input;
  }
  if (isSame)
    return forms_[value] = value;
  Node *form = memory == ResultMemory::ViewOrCopy ? viewOrCopy(node, wholes[0])
                                                  : copyWith(node, wholes)->insertAfter(node);
  for (size_t i = 0; i < node->outputs().size(); ++i)
    forms_[node->output(i)] = form->output(i);
  return forms_.at(value);
}

/// LibTorch drops the write if nothing reads its list afterwards, so the form reads this list too.
Value *WholeForms::ofWrittenTensors(Value *value) {
  Node *node = value->node(), *list = node->input(0)->node();
  std::vector<Value *> wholes;
  for (Value *element : list->inputs())
    wholes.push_back(of(element));
  if (wholes == list->inputs().vec())
    return forms_[value] = value;
  Node *copy = copyWith(list, wholes)->insertAfter(list);
  Node *form = copyWith(node, {copy->output()})->insertAfter(node);
  torch::jit::WithInsertPoint guard(form->next());
  const Inserter insert(node);
  for (size_t i = 0; i < node->outputs().size(); ++i)
    forms_[node->output(i)] = insert.wholeIfSame(node->output(i), form->output(i));
  return forms_.at(value);
}

/// A further result of the control flow, unless it would be the same.
Value *WholeForms::ofBranches(Value *value) {
  Node *node = value->node();
  std::vector<Value *> wholes;
  bool isSame = true;
  for (Block *block : node->blocks()) {
    Value *returned = block->outputs()[value->offset()];
    wholes.push_back(of(returned));
    isSame &= wholes.back() == returned;
  }
  if (isSame)
    return forms_[value] = value;
  for (size_t i = 0; i < wholes.size(); ++i)
    node->blocks()[i]->registerOutput(wholes[i]);
  return forms_[value] = node->addOutput()->setType(value->type());
}

} // namespace pipec
