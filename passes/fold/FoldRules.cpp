// Rules of fold-constants that look at structure: at types, at lists and dicts, at branches.
#include "passes/fold/FoldRules.h"

#include "passes/fold/FoldRank.h"

#include <fmt/format.h>

#include <torch/csrc/jit/ir/constants.h>

namespace pipec {

namespace {

using torch::jit::Block;
using torch::jit::Node;
using torch::jit::Value;

// Types only: None tests, isinstance, casts without effect, rank and dtype of tensors.

bool mayBeNone(const c10::Type &type) {
  switch (type.kind()) {
  case c10::TypeKind::OptionalType:
  case c10::TypeKind::UnionType:
  case c10::TypeKind::AnyType:
  case c10::TypeKind::VarType:
  case c10::TypeKind::NoneType:
    return true;
  default:
    return false;
  }
}

bool foldIdentity(Folding &folding, Node *node) {
  const bool wanted = node->kind() == c10::aten::__is__;
  const c10::Type &a = *node->input(0)->type(), &b = *node->input(1)->type();
  const bool aIsNone = a.kind() == c10::TypeKind::NoneType,
             bIsNone = b.kind() == c10::TypeKind::NoneType;
  if ((aIsNone && bIsNone) || node->input(0) == node->input(1))
    return folding.replaceByConstant(node->output(), wanted);
  if ((aIsNone && !mayBeNone(b)) || (bIsNone && !mayBeNone(a)))
    return folding.replaceByConstant(node->output(), !wanted);
  return false;
}

bool foldIsInstance(Folding &folding, Node *node) {
  const c10::TypePtr &given = node->input()->type();
  bool maybe = false;
  for (const c10::TypePtr &wanted : node->tys(c10::attr::types)) {
    if (given->isSubtypeOf(*wanted))
      return folding.replaceByConstant(node->output(), true);
    maybe |= wanted->isSubtypeOf(*given) || mayBeNone(*given) || mayBeNone(*wanted);
  }
  // A container with unknown elements may still have the requested type.
  if (maybe || given->kind() == c10::TypeKind::InterfaceType || given->containedTypes().size() > 0)
    return false;
  return folding.replaceByConstant(node->output(), false);
}

/// Rank and dtype are equal for every accepted input, because inputs are checked at run time. Sizes
/// are not.
bool foldTensorProperty(Folding &folding, Node *node) {
  if (node->inputs().empty())
    return false;
  Value *of = node->input(0);
  if (!node->output()->hasUses())
    return false;
  const c10::Symbol kind = node->kind();
  if (kind == c10::aten::dim)
    return foldRank(folding, node, of);
  std::optional<c10::ScalarType> dtype = folding.givenDtype(node);
  if (!dtype)
    dtype = folding.dtypeOf(of);
  if (!dtype) {
    folding.noteAnswer(node, "dtype", std::nullopt);
    return false;
  }
  c10::IValue answer;
  if (kind == c10::prim::dtype)
    answer = static_cast<int64_t>(*dtype);
  else if (kind == c10::aten::is_floating_point)
    answer = c10::isFloatingType(*dtype);
  else // is_complex
    answer = c10::isComplexType(*dtype);
  const std::string name = c10::getDtypeNames(*dtype).first;
  folding.noteAnswer(node, "dtype", name);
  folding.relyOn(of, "dtype", name);
  return folding.replaceByConstant(node->output(), answer);
}

// Lists and dicts that no operator changes, and numbers that pass through a tensor.

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
    std::optional<int64_t> index = Folding::constantInt(node->input(1));
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

// prim::If: a branch that is always taken replaces it, and results that are equal on both sides are
// taken out of it.

bool takeBranch(Folding &folding, Node *node, bool taken) {
  Block *block = node->blocks()[taken ? 0 : 1];
  for (Node *inner = *block->nodes().begin(); inner != block->return_node();) {
    Node *next = inner->next();
    inner->moveBefore(node);
    inner = next;
  }
  for (size_t i = 0; i < node->outputs().size(); ++i)
    folding.replace(node->outputs()[i], block->outputs()[i]);
  folding.destroy(node);
  return true;
}

bool alwaysRaises(Block *block) {
  for (Node *node : block->nodes()) {
    if (node->kind() == c10::prim::RaiseException)
      return true;
  }
  return false;
}

bool isDefinedInside(const Value *value, const Block *block) {
  const Node *node = value->node();
  return node->owningBlock() == block;
}

/// The value before casts: a cast narrows the type and makes nothing.
Value *behindCasts(Value *value) {
  while (value->node()->kind() == c10::prim::unchecked_cast ||
         value->node()->kind() == c10::prim::unchecked_unwrap_optional)
    value = value->node()->input(0);
  return value;
}

/// The condition of the branch; whereTrue false: a value that is true where the condition is false.
Value *sameAs(Node *node, bool whereTrue) {
  Value *condition = node->input(0);
  if (whereTrue)
    return condition;
  Node *other = node->owningGraph()->create(c10::aten::__not__, {condition});
  other->insertBefore(node)->copyMetadata(node)->output()->setType(c10::BoolType::get());
  return other->output();
}

/// Nothing runs after a branch that always raises, so the other branch determines the result.
bool foldResult(Folding &folding, Node *node, size_t index) {
  Value *result = node->outputs()[index];
  if (!result->hasUses())
    return false;
  Value *first = node->blocks()[0]->outputs()[index], *second = node->blocks()[1]->outputs()[index];
  if (alwaysRaises(node->blocks()[0]))
    first = second;
  else if (alwaysRaises(node->blocks()[1]))
    second = first;
  std::optional<c10::IValue> a = Folding::constant(first), b = Folding::constant(second);
  if (a && b) {
    const bool plain = (a->isInt() && b->isInt()) || (a->isBool() && b->isBool()) ||
                       (a->isNone() && b->isNone()) || (a->isString() && b->isString());
    if (plain && *a == *b)
      return folding.replaceByConstant(result, *a);
    return a->isBool() && b->isBool() && folding.replace(result, sameAs(node, a->toBool()));
  }
  if (first != second) {
    first = behindCasts(first);
    if (first != behindCasts(second) || !first->type()->isSubtypeOf(*result->type()))
      return false;
  }
  Block *own = alwaysRaises(node->blocks()[0]) ? node->blocks()[1] : node->blocks()[0];
  if (isDefinedInside(first, own))
    return false;
  return folding.replace(result, first);
}

/// Whether `value` is `what` for every path. `known` are values for which this holds already: both
/// branches of an If may lead to the If before it.
bool isAlways(Value *value, Value *what, llvm::DenseSet<Value *> &known) {
  value = behindCasts(value);
  if (value == what || known.count(value))
    return true;
  Node *node = value->node();
  const bool always =
      node->kind() == c10::prim::If && llvm::all_of(node->blocks(), [&](Block *branch) {
        return alwaysRaises(branch) || isAlways(branch->outputs()[value->offset()], what, known);
      });
  if (always)
    known.insert(value);
  return always;
}

/// prim::Loop: a carried value that every round passes on unchanged is the initial value.
bool foldCarried(Folding &folding, Node *loop) {
  Block *body = loop->blocks()[0];
  bool changed = false;
  for (size_t i = 0; i < loop->outputs().size(); ++i) {
    Value *carried = body->inputs()[i + 1], *first = loop->input(i + 2);
    llvm::DenseSet<Value *> known;
    if (!isAlways(body->outputs()[i + 1], carried, known))
      continue;
    changed |= folding.replace(carried, first);
    changed |= folding.replace(loop->output(i), first);
  }
  return changed;
}

/// Once folding has removed the None, an Optional result gets the type that both branches return.
bool refineResult(Folding &folding, Node *node, size_t index) {
  Value *result = node->outputs()[index];
  if (result->type()->kind() != c10::TypeKind::OptionalType)
    return false;
  c10::TypePtr common;
  for (Block *block : node->blocks()) {
    c10::TypePtr type = block->outputs()[index]->type();
    if (type->kind() == c10::TypeKind::TensorType)
      type = c10::TensorType::get();
    if (common && *common != *type)
      return false;
    common = type;
  }
  if (common->kind() == c10::TypeKind::OptionalType)
    return false;
  folding.refine(result, common);
  return true;
}

} // namespace

bool foldTypeTest(Folding &folding, Node *node) {
  static const c10::Symbol isComplex = c10::Symbol::aten("is_complex");
  static const c10::Symbol unwrap = c10::Symbol::aten("_unwrap_optional");
  const c10::Symbol kind = node->kind();
  if (kind == c10::aten::__is__ || kind == c10::aten::__isnot__)
    return foldIdentity(folding, node);
  if (kind == c10::prim::isinstance)
    return foldIsInstance(folding, node);
  if (kind == c10::prim::unchecked_cast || kind == c10::prim::unchecked_unwrap_optional ||
      kind == unwrap) {
    // A tensor stays a tensor whatever the cast knows of its sizes; the value keeps the more
    // precise type.
    const c10::Type &from = *node->input(0)->type(), &to = *node->output()->type();
    if (!from.isSubtypeOf(to) &&
        !(from.kind() == c10::TypeKind::TensorType && to.kind() == c10::TypeKind::TensorType))
      return false;
    return folding.replace(node->output(), node->input(0));
  }
  if (kind == c10::aten::dim || kind == c10::prim::dtype || kind == c10::aten::is_floating_point ||
      kind == isComplex)
    return foldTensorProperty(folding, node);
  return false;
}

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

bool foldControl(Folding &folding, Node *node) {
  if (node->kind() == c10::prim::Loop)
    return foldCarried(folding, node);
  if (node->kind() != c10::prim::If)
    return false;
  std::optional<c10::IValue> condition = Folding::constant(node->input(0));
  if (condition && condition->isBool())
    return takeBranch(folding, node, condition->toBool());
  bool changed = false;
  for (size_t i = 0; i < node->outputs().size(); ++i) {
    changed |= refineResult(folding, node, i);
    changed |= foldResult(folding, node, i);
  }
  return changed;
}

} // namespace pipec
