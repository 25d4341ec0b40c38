#include "passes/fold/FoldContainers.h"

#include "ir/NodeInfo.h"
#include "passes/fold/FoldRank.h"

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

namespace {

using torch::jit::Node;
using torch::jit::Value;

/// The value of `list[index]`, for the list that `node` built.
Value *elementAt(Node *list, int64_t index) {
  const int64_t size = static_cast<int64_t>(list->inputs().size());
  if (index < 0)
    index += size;
  return index < 0 || index >= size ? nullptr : list->inputs()[index];
}

/// The position of a constant key among the pairs of a dict; -1: not there; absent: not known.
std::optional<int64_t> findKey(Node *dict, Value *key) {
  std::optional<c10::IValue> wanted = Folding::constant(key);
  if (!wanted || !(wanted->isString() || wanted->isInt()))
    return std::nullopt;
  int64_t found = -1;
  for (size_t i = 0; i < dict->inputs().size(); i += 2) {
    std::optional<c10::IValue> known = Folding::constant(dict->inputs()[i]);
    if (!known || known->isString() != wanted->isString() || known->isInt() != wanted->isInt())
      return std::nullopt;
    const bool same = known->isString() ? known->toStringRef() == wanted->toStringRef()
                                        : known->toInt() == wanted->toInt();
    if (same)
      found = static_cast<int64_t>(i); // the last one wins
  }
  return found;
}

/// A dict that no operator changes, with distinct constant keys.
Node *knownDict(Folding &folding, Value *value) {
  Node *dict = folding.fixedContainer(value, c10::prim::DictConstruct);
  for (size_t i = 0; dict && i < dict->inputs().size(); i += 2)
    if (findKey(dict, dict->inputs()[i]) != static_cast<int64_t>(i))
      return nullptr;
  return dict;
}

/// The keys or the values of a dict, or both in tuples, as a new list.
bool foldDictView(Folding &folding, Node *node) {
  Node *dict = node->inputs().size() == 1 ? knownDict(folding, node->input(0)) : nullptr;
  if (!dict || folding.isWritten(node->output()))
    return false;
  torch::jit::Graph &graph = *node->owningGraph();
  const bool isItems = node->kind() == c10::Symbol::aten("items");
  std::vector<Value *> elements;
  for (size_t i = 0; i < dict->inputs().size(); i += 2) {
    Value *key = dict->inputs()[i], *value = dict->inputs()[i + 1];
    if (isItems)
      elements.push_back(
          graph.createTuple({key, value})->insertBefore(node)->copyMetadata(node)->output());
    else
      elements.push_back(node->kind() == c10::aten::keys ? key : value);
  }
  Node *list = graph.create(c10::prim::ListConstruct, elements);
  list->insertBefore(node)->copyMetadata(node)->output()->setType(node->output()->type());
  return folding.replace(node->output(), list->output());
}

bool foldLength(Folding &folding, Node *node) {
  if (Node *dict = knownDict(folding, node->input(0)))
    return folding.replaceByConstant(node->output(),
                                     static_cast<int64_t>(dict->inputs().size() / 2));
  if (Node *list = folding.fixedContainer(node->input(0), c10::prim::ListConstruct))
    return folding.replaceByConstant(node->output(), static_cast<int64_t>(list->inputs().size()));
  // len(x.size()) is the rank.
  Node *size = folding.fixedContainer(node->input(0), c10::aten::size);
  if (!size || size->inputs().size() != 1 || !node->output()->hasUses())
    return false;
  return foldRank(folding, node, size->input(0));
}

bool foldItem(Folding &folding, Node *node) {
  if (Node *list = folding.fixedContainer(node->input(0), c10::prim::ListConstruct)) {
    std::optional<int64_t> index = constantInt(node->input(1));
    Value *element = index ? elementAt(list, *index) : nullptr;
    return element && element->type()->isSubtypeOf(*node->output()->type()) &&
           folding.replace(node->output(), element);
  }
  if (Node *dict = folding.fixedContainer(node->input(0), c10::prim::DictConstruct)) {
    std::optional<int64_t> at = findKey(dict, node->input(1));
    if (!at || *at < 0)
      return false;
    Value *element = dict->inputs()[*at + 1];
    return element->type()->isSubtypeOf(*node->output()->type()) &&
           folding.replace(node->output(), element);
  }
  return false;
}

bool foldUnpack(Folding &folding, Node *node) {
  Node *list = folding.fixedContainer(node->input(), c10::prim::ListConstruct);
  if (!list || list->inputs().size() != node->outputs().size())
    return false;
  bool changed = false;
  for (size_t i = 0; i < node->outputs().size(); ++i)
    changed |= folding.replace(node->outputs()[i], list->inputs()[i]);
  return changed;
}

/// "mode in ['nearest', 'area']", of constants.
bool foldListContains(Folding &folding, Node *node) {
  Node *list = folding.fixedContainer(node->input(0), c10::prim::ListConstruct);
  const std::optional<c10::IValue> wanted = torch::jit::toIValue(node->input(1));
  if (!list || !wanted || !(wanted->isString() || wanted->isInt()))
    return false;
  bool found = false;
  for (Value *element : list->inputs()) {
    const std::optional<c10::IValue> value = torch::jit::toIValue(element);
    if (!value)
      return false;
    found = found || *value == *wanted;
  }
  return folding.replaceByConstant(node->output(), found);
}

bool foldContains(Folding &folding, Node *node) {
  if (foldListContains(folding, node))
    return true;
  Node *dict = folding.fixedContainer(node->input(0), c10::prim::DictConstruct);
  if (!dict)
    return false;
  std::optional<int64_t> at = findKey(dict, node->input(1));
  return at && folding.replaceByConstant(node->output(), *at >= 0);
}

/// dict.get(key) and dict.get(key, otherwise).
bool foldGet(Folding &folding, Node *node) {
  Node *dict = folding.fixedContainer(node->input(0), c10::prim::DictConstruct);
  std::optional<int64_t> at = dict ? findKey(dict, node->input(1)) : std::nullopt;
  if (!at)
    return false;
  if (*at < 0 && node->inputs().size() == 2)
    return folding.replaceByConstant(node->output(), c10::IValue());
  Value *found = *at < 0 ? node->input(2) : dict->inputs()[*at + 1];
  return found->type()->isSubtypeOf(*node->output()->type()) &&
         folding.replace(node->output(), found);
}

/// int(tensor(n)) is n: traces carry every size through a 0-dim tensor.
bool foldNumberThroughTensor(Folding &folding, Node *node) {
  Node *tensor = node->input(0)->node();
  if (tensor->kind() != c10::prim::NumToTensor || folding.isWritten(tensor->output()))
    return false;
  Value *number = tensor->input(0);
  const c10::TypeKind kind = number->type()->kind();
  const bool toBool = node->output()->type()->kind() == c10::TypeKind::BoolType;
  if (kind != (toBool ? c10::TypeKind::BoolType : c10::TypeKind::IntType))
    return false;
  return folding.replace(node->output(), number);
}

} // namespace

bool foldContainer(Folding &folding, Node *node) {
  static const c10::Symbol contains = c10::Symbol::aten("__contains__");
  static const c10::Symbol items = c10::Symbol::aten("items");
  static const c10::Symbol get = c10::Symbol::aten("get");
  switch (node->kind()) {
  case c10::aten::len:
    return node->inputs().size() == 1 && foldLength(folding, node);
  case c10::aten::__getitem__:
    return foldItem(folding, node);
  case c10::prim::ListUnpack:
    return foldUnpack(folding, node);
  case c10::aten::Int:
  case c10::aten::IntImplicit:
  case c10::aten::ScalarImplicit:
  case c10::aten::Bool:
  case c10::aten::item:
    return node->inputs().size() == 1 && foldNumberThroughTensor(folding, node);
  case c10::aten::keys:
  case c10::aten::values:
    return node->output()->hasUses() && foldDictView(folding, node);
  default:
    if (node->kind() == items)
      return node->output()->hasUses() && foldDictView(folding, node);
    if (node->kind() == get)
      return node->inputs().size() > 1 && foldGet(folding, node);
    return node->kind() == contains && foldContains(folding, node);
  }
}

} // namespace pipec
