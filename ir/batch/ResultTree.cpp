#include "ir/batch/ResultTree.h"

#include "ir/values/Elements.h"

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
    if (type && type->name() && type->schema()) {
      tree.typeName = type->name()->name();
      for (const c10::Argument &field : type->schema()->arguments())
        tree.keys.push_back(field.name());
    }
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

/// The values below a node of the tree; nothing where it is another node.
std::optional<std::vector<c10::IValue>> childrenOf(const OutputTree &tree,
                                                   const c10::IValue &value) {
  std::vector<c10::IValue> children;
  if ((tree.kind == OutputTree::Kind::Tuple && value.isTuple()) ||
      (tree.kind == OutputTree::Kind::List && value.isList()))
    children = elementsIn(value);
  if (tree.kind == OutputTree::Kind::Dict && value.isGenericDict() &&
      value.toGenericDict().size() == tree.keys.size())
    for (const std::string &key : tree.keys)
      if (value.toGenericDict().contains(key))
        children.push_back(value.toGenericDict().at(key));
  if (children.size() != tree.children.size())
    return std::nullopt;
  return children;
}

OutputTree agreedTree(const OutputTree &tree, const c10::IValue &value,
                      std::vector<OutputLeaf> &old, std::vector<OutputLeaf> &leaves) {
  OutputTree agreed = tree;
  agreed.children.clear();
  std::optional<std::vector<c10::IValue>> children;
  if (tree.kind != OutputTree::Kind::Leaf)
    children = childrenOf(tree, value);
  if (children) {
    for (size_t i = 0; i < children->size(); ++i)
      agreed.children.push_back(agreedTree(tree.children[i], (*children)[i], old, leaves));
    return agreed;
  }
  const bool wasLeaf = tree.kind == OutputTree::Kind::Leaf;
  agreed = OutputTree();
  agreed.leaf = leaves.size();
  OutputLeaf leaf;
  leaf.type = value.type()->annotation_str();
  leaves.push_back(wasLeaf ? std::move(old[tree.leaf]) : std::move(leaf));
  return agreed;
}

} // namespace

bool agreeWithResult(Signature &signature, const c10::IValue &result) {
  std::vector<OutputLeaf> old = std::move(signature.leaves);
  signature.leaves.clear();
  OutputTree agreed = agreedTree(signature.outputs, result, old, signature.leaves);
  const bool changed = !(agreed == signature.outputs);
  signature.outputs = std::move(agreed);
  return changed;
}

void describeResult(Signature &signature, const c10::IValue &result) {
  signature.leaves.clear();
  signature.outputs = treeOf(signature, result);
}

} // namespace pipec
