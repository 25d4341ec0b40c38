// lower-tuples: values that are put into a tuple and taken out again bypass the tuple, also through
// branches and loops.
#include "passes/Passes.h"

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

namespace {

using torch::jit::Block;
using torch::jit::Node;
using torch::jit::Value;

/// The node that builds the tuple, if it is known.
Node *builder(Value *value) {
  return value->node()->kind() == c10::prim::TupleConstruct ? value->node() : nullptr;
}

/// Element types of a tuple type; empty for other types.
std::vector<c10::TypePtr> elementTypes(Value *value) {
  auto tuple = value->type()->cast<c10::TupleType>();
  return tuple ? tuple->elements().vec() : std::vector<c10::TypePtr>();
}

class LowerTuples : public ModelPass {
public:
  llvm::Expected<bool> run(Model &model, PassContext &) override {
    graph_ = model.graph.get();
    bool any = false;
    // A round opens one level of nesting, so the number of rounds is the depth of the deepest
    // tuple.
    do {
      changed_ = false;
      lower(graph_->block());
      any |= changed_;
    } while (changed_);
    return any;
  }

private:
  void lower(Block *block) {
    for (Node *node = *block->nodes().begin(); node != block->return_node();) {
      for (Block *inner : node->blocks())
        lower(inner);
      switch (node->kind()) {
      case c10::prim::TupleUnpack:
        lowerUnpack(node);
        break;
      case c10::prim::TupleIndex:
        lowerIndex(node);
        break;
      case c10::prim::TupleSlice:
        lowerSlice(node);
        break;
      case c10::prim::If:
        for (size_t i = node->outputs().size(); i-- > 0;)
          openIfResult(node, i);
        break;
      case c10::prim::Loop:
        for (size_t i = node->outputs().size(); i-- > 0;)
          openCarried(node, i);
        break;
      default:
        break;
      }
      Node *next = node->next();
      if (node->kind() != c10::prim::If && node->kind() != c10::prim::Loop && isTupleNode(node) &&
          !node->hasUses()) {
        node->destroy();
        changed_ = true;
      }
      node = next;
    }
  }

  static bool isTupleNode(Node *node) {
    return node->kind() == c10::prim::TupleUnpack || node->kind() == c10::prim::TupleIndex ||
           node->kind() == c10::prim::TupleSlice;
  }

  void lowerUnpack(Node *node) {
    Node *tuple = builder(node->input());
    if (!tuple || tuple->inputs().size() != node->outputs().size())
      return;
    for (size_t i = 0; i < node->outputs().size(); ++i)
      node->outputs()[i]->replaceAllUsesWith(tuple->inputs()[i]);
  }

  void lowerIndex(Node *node) {
    Node *tuple = builder(node->input(0));
    std::optional<c10::IValue> index = torch::jit::toIValue(node->input(1));
    if (!tuple || !index || !index->isInt())
      return;
    const int64_t size = static_cast<int64_t>(tuple->inputs().size());
    const int64_t at = index->toInt() < 0 ? index->toInt() + size : index->toInt();
    if (at >= 0 && at < size)
      node->output()->replaceAllUsesWith(tuple->inputs()[at]);
  }

  void lowerSlice(Node *node) {
    Node *tuple = builder(node->input(0));
    if (!tuple)
      return;
    const int64_t begin = node->i(c10::attr::beg), end = node->i(c10::attr::end);
    if (begin < 0 || end > static_cast<int64_t>(tuple->inputs().size()) || begin > end)
      return;
    std::vector<Value *> part(tuple->inputs().begin() + begin, tuple->inputs().begin() + end);
    Node *made = graph_->createTuple(part)->insertBefore(node)->copyMetadata(node);
    node->output()->replaceAllUsesWith(made->output());
  }

  /// The elements of a tuple that a block returns; in a branch that raises, undefined ones are
  /// made. Empty: they are not known.
  std::vector<Value *> elementsAt(Block *block, size_t index,
                                  const std::vector<c10::TypePtr> &types) {
    Value *value = block->outputs()[index];
    if (Node *tuple = builder(value))
      return tuple->inputs().size() == types.size() ? tuple->inputs().vec()
                                                    : std::vector<Value *>();
    std::vector<Value *> elements;
    if (value->node()->kind() != c10::prim::Uninitialized)
      return elements;
    for (const c10::TypePtr &type : types) {
      Node *made = graph_->createUninitialized(type)->insertBefore(block->return_node());
      elements.push_back(made->copyMetadata(value->node())->output());
    }
    return elements;
  }

  static bool inSight(Block *block, size_t index, size_t size) {
    Value *value = block->outputs()[index];
    Node *tuple = builder(value);
    return tuple ? tuple->inputs().size() == size
                 : value->node()->kind() == c10::prim::Uninitialized;
  }

  /// %t = If(%c) { -> (%tuple) } { ... }   =>   %a, %b = If(%c) { -> (%x, %y) } ...; %t =
  /// TupleConstruct(%a, %b)
  void openIfResult(Node *node, size_t index) {
    Value *result = node->outputs()[index];
    const std::vector<c10::TypePtr> types = elementTypes(result);
    bool anyBuilt = false;
    for (Block *block : node->blocks()) {
      if (types.empty() || !inSight(block, index, types.size()))
        return;
      anyBuilt |= builder(block->outputs()[index]) != nullptr;
    }
    if (!anyBuilt || !result->hasUses())
      return;
    std::vector<Value *> elements;
    for (size_t e = 0; e < types.size(); ++e)
      elements.push_back(node->addOutput()->setType(types[e]));
    for (Block *block : node->blocks()) {
      for (Value *element : elementsAt(block, index, types))
        block->registerOutput(element);
    }
    rebuild(node, result, elements, node->next());
    for (Block *block : node->blocks())
      block->eraseOutput(index);
    node->eraseOutput(index);
    changed_ = true;
  }

  /// A carried tuple becomes one carried value per element. Inside the body the tuple is built
  /// again for users of the whole tuple.
  void openCarried(Node *loop, size_t slot) {
    Block *body = loop->blocks()[0];
    Value *result = loop->outputs()[slot];
    const std::vector<c10::TypePtr> types = elementTypes(result);
    Node *first = builder(loop->inputs()[slot + 2]);
    if (types.empty() || !first || first->inputs().size() != types.size() ||
        !inSight(body, slot + 1, types.size()))
      return;
    std::vector<Value *> results, inside;
    for (size_t e = 0; e < types.size(); ++e) {
      loop->addInput(first->inputs()[e]);
      inside.push_back(body->addInput()->setType(types[e]));
      results.push_back(loop->addOutput()->setType(types[e]));
    }
    for (Value *element : elementsAt(body, slot + 1, types))
      body->registerOutput(element);
    rebuild(loop, body->inputs()[slot + 1], inside, *body->nodes().begin());
    rebuild(loop, result, results, loop->next());
    body->eraseOutput(slot + 1);
    body->eraseInput(slot + 1);
    loop->eraseOutput(slot);
    loop->removeInput(slot + 2);
    changed_ = true;
  }

  void rebuild(Node *origin, Value *tuple, const std::vector<Value *> &elements, Node *before) {
    if (!tuple->hasUses())
      return;
    Node *made = graph_->create(c10::prim::TupleConstruct, elements)
                     ->insertBefore(before)
                     ->copyMetadata(origin);
    made->output()->setType(tuple->type());
    tuple->replaceAllUsesWith(made->output());
  }

  torch::jit::Graph *graph_ = nullptr;
  bool changed_ = false;
};

} // namespace

PassInfo lowerTuples() {
  return {
      .name = "lower-tuples",
      .description =
          "replaces tuple elements by the values that were put in, through branches and loops too",
      .requires_ = "a flat graph",
      .guarantees = "tuples that are built and taken apart in the graph are gone; results of the "
                    "model stay as they are",
      .example = R"(
    %3 : (Tensor, Tensor) = prim::TupleConstruct(%1, %2)
    %4 : Tensor, %5 : Tensor = prim::TupleUnpack(%3)
    %6 : Tensor = aten::add(%4, %5, %0)
    =>
    %3 : (Tensor, Tensor) = prim::TupleConstruct(%1, %2)
    %6 : Tensor = aten::add(%1, %2, %0))",
      .make = withoutOptions<LowerTuples>()};
}

} // namespace pipec
