#include "passes/fold/FoldOperator.h"

#include "ir/RandomOps.h"
#include "ir/TorchError.h"
#include "ir/support/StringSwitch.h"
#include "passes/fold/FoldBranches.h"
#include "passes/fold/FoldTextLength.h"

#include <ATen/core/stack.h>
#include <torch/csrc/jit/runtime/operator.h>

namespace pipec {

namespace {

using torch::jit::Node;
using torch::jit::Value;

constexpr int64_t kLongestResult = 1024; // elements or characters of a folded constant

/// Whether the number stays exact at compile time.
bool isExact(const c10::IValue &value) {
  return value.isInt() || value.isBool() || value.isString() || value.isNone() ||
         value.isDevice() || value.isIntList() || value.isBoolList() ||
         (value.isList() && value.toListRef().size() <= size_t(kLongestResult) &&
          llvm::all_of(value.toListRef(),
                       [](const c10::IValue &element) { return element.isString(); }));
}

bool isShort(const c10::IValue &value) {
  if (value.isString())
    return value.toStringRef().size() <= size_t(kLongestResult);
  return !value.isList() || value.toListRef().size() <= size_t(kLongestResult);
}

/// Comparisons of two floats, and tests whether one is zero, do not round.
bool isComparison(const Node *node) {
  return StringSwitch<bool>(node->kind().toUnqualString())
      .Cases({"eq", "ne", "lt", "le", "gt", "ge", "Bool"}, true)
      .Default(false);
}

/// "layer{}".format(3), "layer%d" % 3: keys of dicts, and messages.
bool makesText(const Node *node) {
  return node->kind() == c10::aten::format ||
         node->kind() == c10::Symbol::fromQualString("aten::percentFormat");
}

bool isMessage(const Value *text) {
  return llvm::all_of(text->uses(), [](const torch::jit::Use &use) {
    return use.user->kind() == c10::prim::RaiseException;
  });
}

/// Only LibTorch's own operators on plain values: a custom operator may have any effect. Messages
/// stay as written.
bool isFoldable(Node *node) {
  if (node->inputs().empty() || !node->blocks().empty() || node->outputs().size() != 1)
    return false;
  if (!node->kind().is_aten() && !node->kind().is_prim())
    return false;
  switch (node->kind()) {
  case c10::prim::Constant:
  case c10::prim::ListConstruct:
  case c10::prim::TupleConstruct:
  case c10::prim::DictConstruct:
  case c10::prim::CreateObject:
  case c10::prim::Uninitialized:
    return false;
  default:
    break;
  }
  if (makesText(node))
    return !isMessage(node->output());
  if (isRandomOp(node->kind().toQualString()))
    return false;
  const torch::jit::Operator *op = node->maybeOperator();
  if (!op || !op->hasOperation() || op->schema().is_vararg() || node->isNondeterministic() ||
      node->hasSideEffects())
    return false;
  for (const c10::Argument &argument : op->schema().arguments()) {
    if (argument.alias_info() && argument.alias_info()->isWrite())
      return false;
  }
  return true;
}

/// Whether a value of the type can be a folded constant. Floats cannot: they come from float
/// arithmetic.
bool isFoldableType(const c10::Type &type) {
  switch (type.kind()) {
  case c10::TypeKind::IntType:
  case c10::TypeKind::BoolType:
  case c10::TypeKind::StringType:
  case c10::TypeKind::NoneType:
  case c10::TypeKind::DeviceObjType:
    return true;
  case c10::TypeKind::ListType:
    return type.containedTypes()[0]->kind() == c10::TypeKind::IntType;
  case c10::TypeKind::OptionalType:
  case c10::TypeKind::NumberType:
    return true; // the value decides
  default:
    return false;
  }
}

template <typename T, typename Convert>
std::optional<c10::IValue> knownList(Node *list, Convert convert) {
  c10::List<T> elements;
  for (Value *input : list->inputs()) {
    std::optional<c10::IValue> element = Folding::constant(input);
    if (!element || element->isNone())
      return std::nullopt;
    elements.push_back(convert(*element));
  }
  return c10::IValue(elements);
}

std::optional<c10::IValue> operand(const Folding &folding, Value *value) {
  if (std::optional<c10::IValue> constant = Folding::constant(value))
    return constant;
  // A list of known ints or bools that no operator changes counts as a constant.
  Node *list = folding.fixedContainer(value, c10::prim::ListConstruct);
  if (!list)
    return std::nullopt;
  switch (value->type()->containedTypes()[0]->kind()) {
  case c10::TypeKind::IntType:
    return knownList<int64_t>(list, [](const c10::IValue &element) { return element.toInt(); });
  case c10::TypeKind::BoolType:
    return knownList<bool>(list, [](const c10::IValue &element) { return element.toBool(); });
  default:
    return std::nullopt;
  }
}

/// Exact, or a float that is only compared.
bool mayBeOperand(const Node *node, const c10::IValue &value) {
  return isShort(value) && (isExact(value) || (value.isDouble() && isComparison(node)));
}

} // namespace

std::optional<c10::IValue> computedFor(const Folding &folding, Node *node,
                                       torch::jit::Stack arguments) {
  if (!isFoldable(node) || folding.isWritten(node->output()) ||
      folding.mayBeSeenOutside(node->output()) ||
      !llvm::all_of(arguments, [&](const c10::IValue &value) { return mayBeOperand(node, value); }))
    return std::nullopt;
  // [0] * n and "a" * n can make large values from small operands.
  if (node->kind() == c10::aten::mul && llvm::any_of(arguments, [](const c10::IValue &value) {
        return value.isList() || value.isString();
      }))
    return std::nullopt;
  if (node->schema().is_vararg())
    arguments.emplace_back(static_cast<int64_t>(arguments.size()));
  llvm::Error failed =
      guardTorchVoid(ExitCode::Internal, "folding", [&] { node->getOperation()(arguments); });
  if (failed) { // it fails at run time as well, with its own message
    llvm::consumeError(std::move(failed));
    return std::nullopt;
  }
  if (arguments.size() != 1 || !isExact(arguments[0]) || !isShort(arguments[0]))
    return std::nullopt;
  return std::move(arguments[0]);
}

bool foldOperator(Folding &folding, Node *node) {
  if (node->outputs().size() != 1 || !node->output()->hasUses() ||
      !isFoldableType(*node->output()->type()))
    return false;
  torch::jit::Stack stack;
  for (Value *input : node->inputs()) {
    std::optional<c10::IValue> value = operand(folding, input);
    if (!value)
      return foldTextLength(folding, node) || foldThroughBranch(folding, node);
    stack.push_back(std::move(*value));
  }
  std::optional<c10::IValue> result = computedFor(folding, node, std::move(stack));
  return result && folding.replaceByConstant(node->output(), *result);
}

} // namespace pipec
