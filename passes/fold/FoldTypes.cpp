#include "passes/fold/FoldTypes.h"

#include "passes/fold/FoldRank.h"

#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

namespace {

using torch::jit::Node;
using torch::jit::Value;

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
    // A cast from tensor to tensor changes no value, and the value keeps the more precise type.
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

} // namespace pipec
