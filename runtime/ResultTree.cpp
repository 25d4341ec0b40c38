#include "runtime/ResultTree.h"

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

namespace pipec {

namespace {

bool hasStringKeys(const c10::IValue &value) {
  const auto &dict = value.toGenericDict();
  if (dict.empty())
    return false;
  for (const auto &entry : dict)
    if (!entry.key().isString())
      return false;
  return true;
}

OutputTree treeOf(Signature &signature, const c10::IValue &value) {
  OutputTree tree;
  auto add = [&](const c10::IValue &child) { tree.children.push_back(treeOf(signature, child)); };
  if (value.isTuple()) {
    tree.kind = OutputTree::Kind::Tuple;
    auto type = value.type()->cast<c10::TupleType>();
    if (type && type->name())
      tree.typeName = type->name()->name();
    for (const c10::IValue &child : value.toTupleRef().elements())
      add(child);
    return tree;
  }
  if (value.isList() && !value.toListRef().empty()) {
    tree.kind = OutputTree::Kind::List;
    for (const c10::IValue &child : value.toListRef())
      add(child);
    return tree;
  }
  if (value.isGenericDict() && hasStringKeys(value)) {
    tree.kind = OutputTree::Kind::Dict;
    for (const auto &entry : value.toGenericDict()) {
      tree.keys.push_back(entry.key().toStringRef());
      add(entry.value());
    }
    return tree;
  }
  tree.leaf = signature.leaves.size();
  OutputLeaf leaf;
  leaf.type = value.isTensor() ? "Tensor" : value.type()->annotation_str();
  signature.leaves.push_back(std::move(leaf));
  return tree;
}

} // namespace

void describeResult(Signature &signature, const c10::IValue &result) {
  signature.leaves.clear();
  signature.outputs = treeOf(signature, result);
}

} // namespace pipec
