#include "passes/attributes/TupleClasses.h"

#include "ir/support/Llvm.h"
#include "llvm/ADT/STLExtras.h"

#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

namespace {

using torch::jit::Block;
using torch::jit::Node;
using torch::jit::Value;

std::string classNameOf(const c10::ClassType &type) { return type.name()->qualifiedName(); }

/// Classes of the model's own: no modules, and none of C++.
bool isOwn(const c10::ClassType &type) {
  return !type.is_module() && type.name() &&
         !startsWith(classNameOf(type), "__torch__.torch.classes.");
}

bool holds(const c10::TypePtr &type) {
  return type->kind() == c10::TypeKind::ListType || type->kind() == c10::TypeKind::TupleType ||
         type->kind() == c10::TypeKind::OptionalType || type->kind() == c10::TypeKind::DictType;
}

} // namespace

void TupleClasses::note(const c10::TypePtr &type) {
  if (auto object = type->cast<c10::ClassType>()) {
    if (isOwn(*object) && classes_.try_emplace(classNameOf(*object), object).second)
      for (const c10::TypePtr &attribute : object->containedTypes())
        note(attribute);
    return;
  }
  if (!holds(type))
    return reject(type, type->annotation_str() + " may hold one");
  for (const c10::TypePtr &part : type->containedTypes())
    note(part);
}

void TupleClasses::reject(const c10::TypePtr &type, const std::string &why) {
  if (auto object = type->cast<c10::ClassType>()) {
    if (isOwn(*object))
      rejected_.try_emplace(classNameOf(*object), why);
    return;
  }
  for (const c10::TypePtr &part : type->containedTypes())
    reject(part, why);
}

std::string TupleClasses::reasonToKeep(const c10::TypePtr &type) const {
  auto object = type->cast<c10::ClassType>();
  auto found = object && object->name() ? rejected_.find(classNameOf(*object)) : rejected_.end();
  return found == rejected_.end() || found->second.empty() ? "" : ": " + found->second;
}

void TupleClasses::needCells(const c10::TypePtr &type) {
  if (auto object = type->cast<c10::ClassType>(); object && isOwn(*object))
    cells_.insert(classNameOf(*object));
}

void TupleClasses::noteStored(const c10::TypePtr &type) {
  if (auto object = type->cast<c10::ClassType>())
    if (!isOwn(*object) || !stored_.insert(classNameOf(*object)).second)
      return;
  for (const c10::TypePtr &part : type->containedTypes())
    noteStored(part);
}

bool TupleClasses::namesAny(const c10::TypePtr &type) {
  switch (type->kind()) {
  case c10::TypeKind::AnyType:
  case c10::TypeKind::AnyListType:
  case c10::TypeKind::AnyTupleType:
  case c10::TypeKind::AnyClassType:
    return true;
  case c10::TypeKind::ClassType:
    return false;
  default:
    return llvm::any_of(type->containedTypes(), namesAny);
  }
}

void TupleClasses::settle() {
  for (const std::string &name : cells_)
    if (stored_.count(name))
      rejected_.try_emplace(name, "the model's file holds one");
  for (auto it = classes_.begin(); it != classes_.end();)
    it = rejected_.count(it->first) ? classes_.erase(it) : std::next(it);
  for (bool changed = true; changed;) {
    changed = false;
    for (auto it = classes_.begin(); it != classes_.end();) {
      const bool stays =
          llvm::any_of(it->second->containedTypes(), [&](const c10::TypePtr &attribute) {
            return namesOther(attribute) || reaches(attribute, it->first);
          });
      if (stays)
        rejected_.try_emplace(it->first, "it holds itself, or one that is more");
      it = stays ? classes_.erase(it) : std::next(it);
      changed |= stays;
    }
  }
}

bool TupleClasses::isTuple(const c10::TypePtr &type) const {
  auto object = type->cast<c10::ClassType>();
  return object && isOwn(*object) && classes_.count(classNameOf(*object));
}

bool TupleClasses::hasCells(const c10::TypePtr &type) const {
  return isTuple(type) && cells_.count(classNameOf(*type->expect<c10::ClassType>()));
}

c10::TypePtr TupleClasses::tupleType(const c10::TypePtr &type) const {
  if (isTuple(type)) {
    std::vector<c10::TypePtr> elements = tupleTypes(type->containedTypes());
    if (hasCells(type))
      for (c10::TypePtr &element : elements)
        element = c10::ListType::create(element);
    return c10::TupleType::create(std::move(elements));
  }
  if (!holds(type) || type->containedTypes().empty())
    return type;
  std::vector<c10::TypePtr> contained = tupleTypes(type->containedTypes());
  return type->containedTypes().equals(contained) ? type
                                                  : type->withContained(std::move(contained));
}

c10::IValue TupleClasses::tupleValue(const c10::IValue &value, const c10::TypePtr &declared) const {
  const c10::TypePtr wanted = tupleType(declared);
  if (wanted == declared || value.isNone())
    return value;
  if (auto optional = declared->cast<c10::OptionalType>())
    return tupleValue(value, optional->getElementType());
  std::vector<c10::IValue> elements;
  if (isTuple(declared)) {
    for (size_t i = 0; i < declared->containedTypes().size(); ++i)
      elements.push_back(tupleValue(value.toObjectRef().getSlot(i), declared->containedTypes()[i]));
    return c10::ivalue::Tuple::create(std::move(elements));
  }
  if (declared->kind() == c10::TypeKind::TupleType) {
    for (size_t i = 0; i < declared->containedTypes().size(); ++i)
      elements.push_back(
          tupleValue(value.toTupleRef().elements()[i], declared->containedTypes()[i]));
    return c10::ivalue::Tuple::create(std::move(elements));
  }
  if (auto list = declared->cast<c10::ListType>()) {
    c10::impl::GenericList result(wanted->expect<c10::ListType>()->getElementType());
    for (const c10::IValue &element : value.toListRef())
      result.push_back(tupleValue(element, list->getElementType()));
    return result;
  }
  auto dict = declared->expect<c10::DictType>();
  c10::impl::GenericDict result(dict->getKeyType(),
                                wanted->expect<c10::DictType>()->getValueType());
  for (const auto &item : value.toGenericDict())
    result.insert(item.key(), tupleValue(item.value(), dict->getValueType()));
  return result;
}

void TupleClasses::retype(Block &block) const {
  auto each = [&](at::ArrayRef<Value *> values) {
    for (Value *value : values)
      if (c10::TypePtr type = tupleType(value->type()); type != value->type())
        value->setType(type);
  };
  each(block.inputs());
  for (Node *node : block.nodes()) {
    for (Block *inner : node->blocks())
      retype(*inner);
    if (node->kind() != c10::prim::GetAttr || !isTuple(node->output()->type()))
      each(node->outputs());
  }
}

std::vector<c10::TypePtr> TupleClasses::tupleTypes(at::ArrayRef<c10::TypePtr> types) const {
  std::vector<c10::TypePtr> result;
  for (const c10::TypePtr &type : types)
    result.push_back(tupleType(type));
  return result;
}

bool TupleClasses::namesOther(const c10::TypePtr &type) const {
  if (auto object = type->cast<c10::ClassType>())
    return isOwn(*object) && !isTuple(type);
  return llvm::any_of(type->containedTypes(),
                      [&](const c10::TypePtr &part) { return namesOther(part); });
}

bool TupleClasses::reaches(const c10::TypePtr &type, const std::string &name) const {
  std::set<std::string> seen;
  return reaches(type, name, seen);
}

bool TupleClasses::reaches(const c10::TypePtr &type, const std::string &name,
                           std::set<std::string> &seen) const {
  if (auto object = type->cast<c10::ClassType>()) {
    if (!isOwn(*object) || !seen.insert(classNameOf(*object)).second)
      return false;
    if (classNameOf(*object) == name)
      return true;
  }
  return llvm::any_of(type->containedTypes(),
                      [&](const c10::TypePtr &part) { return reaches(part, name, seen); });
}

} // namespace pipec
