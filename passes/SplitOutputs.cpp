// split-outputs: a result that is built from parts at the end of the model becomes one output per
// part, so that each part can leave from the stage that makes it.
#include "passes/Passes.h"

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

namespace {

using torch::jit::Node;
using torch::jit::Value;

bool isConstruct(const Node *node) {
  return node->kind() == c10::prim::TupleConstruct || node->kind() == c10::prim::ListConstruct ||
         node->kind() == c10::prim::DictConstruct;
}

/// A list or dict may be split only if its users are graph outputs and containers in such outputs.
/// Other users could change it or see it as one object.
bool usedOnlyAsOutputOnce(Value *value) {
  if (value->uses().size() != 1 || value->node()->owningBlock() != value->owningGraph()->block())
    return false;
  Node *user = value->uses()[0].user;
  return user->kind() == c10::prim::Return ||
         (isConstruct(user) && usedOnlyAsOutputOnce(user->output()));
}

std::optional<std::vector<std::string>> constantStringKeys(Node *dict) {
  std::vector<std::string> keys;
  for (size_t i = 0; i < dict->inputs().size(); i += 2) {
    std::optional<c10::IValue> key = torch::jit::toIValue(dict->input(i));
    if (!key || !key->isString() || llvm::is_contained(keys, key->toStringRef()))
      return std::nullopt;
    keys.push_back(key->toStringRef());
  }
  return keys;
}

class SplitOutputs : public ModelPass {
public:
  llvm::Expected<bool> run(Model &model, PassContext &) override {
    graph_ = model.graph.get();
    std::vector<Value *> outputs = graph_->outputs().vec();
    std::vector<Value *> states(outputs.begin() + model.signature.leaves.size(), outputs.end());
    oldLeaves_ = model.signature.leaves;
    oldOutputs_.assign(outputs.begin(), outputs.begin() + oldLeaves_.size());
    changed_ = false;
    rebuild(model.signature.outputs);
    if (!changed_)
      return false;
    while (!graph_->outputs().empty())
      graph_->eraseOutput(graph_->outputs().size() - 1);
    for (Value *value : newOutputs_)
      graph_->registerOutput(value);
    for (Value *value : states)
      graph_->registerOutput(value);
    model.signature.leaves = newLeaves_;
    return true;
  }

private:
  void rebuild(OutputTree &tree) {
    if (tree.kind != OutputTree::Kind::Leaf) {
      for (OutputTree &child : tree.children)
        rebuild(child);
      return;
    }
    Value *value = oldOutputs_[tree.leaf];
    expand(tree, value, oldLeaves_[tree.leaf]);
  }

  void expand(OutputTree &tree, Value *value, const OutputLeaf &leaf) {
    Node *node = value->node();
    std::vector<Value *> parts;
    if (node->kind() ==
        c10::prim::TupleConstruct) { // tuples cannot change: other users may share one
      tree.kind = OutputTree::Kind::Tuple;
      auto type = value->type()->expect<c10::TupleType>();
      if (type->name() && type->schema()) {
        tree.typeName = type->name()->name();
        for (const c10::Argument &field : type->schema()->arguments())
          tree.keys.push_back(field.name());
      }
      parts = node->inputs().vec();
    } else if (node->kind() == c10::prim::ListConstruct && usedOnlyAsOutputOnce(value)) {
      tree.kind = OutputTree::Kind::List;
      parts = node->inputs().vec();
    } else if (node->kind() == c10::prim::DictConstruct && usedOnlyAsOutputOnce(value) &&
               constantStringKeys(node)) {
      tree.kind = OutputTree::Kind::Dict;
      tree.keys = *constantStringKeys(node);
      for (size_t i = 1; i < node->inputs().size(); i += 2)
        parts.push_back(node->input(i));
    } else {
      tree.leaf = newLeaves_.size();
      newLeaves_.push_back(leaf);
      newOutputs_.push_back(value);
      return;
    }
    changed_ = true;
    tree.leaf = 0; // no leaf any more
    for (Value *part : parts) {
      OutputLeaf inner;
      inner.type = part->type()->annotation_str();
      tree.children.emplace_back();
      expand(tree.children.back(), part, inner);
    }
  }

  torch::jit::Graph *graph_ = nullptr;
  std::vector<OutputLeaf> oldLeaves_, newLeaves_;
  std::vector<Value *> oldOutputs_, newOutputs_;
  bool changed_ = false;
};

} // namespace

PassInfo splitOutputs() {
  return {.name = "split-outputs",
          .description =
              "makes one graph output per part of a result built from tuples, lists and dicts",
          .requires_ = "attributes are lowered",
          .guarantees = "no output is made by prim::TupleConstruct; the signature's tree "
                        "records how the parts are nested",
          .example = R"(
    %t : (Tensor, Tensor) = prim::TupleConstruct(%a, %b)
    return (%t)
    =>
    return (%a, %b))",
          .make = withoutOptions<SplitOutputs>()};
}

} // namespace pipec
