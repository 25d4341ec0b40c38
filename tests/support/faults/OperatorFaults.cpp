// Faults in the graphs: operators, constants, control flow.
#include "ir/RandomOps.h"
#include "llvm/ADT/STLExtras.h"
#include "tests/support/faults/Faults.h"
#include "tests/support/faults/GraphEdits.h"

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

#include <cmath>

namespace pipec::faults {

namespace {

using torch::jit::Block;
using torch::jit::Graph;
using torch::jit::Node;
using torch::jit::Use;
using torch::jit::Value;

using OnNode = llvm::function_ref<bool(Node *)>;

bool firstNode(Block &block, OnNode tryNode) {
  std::vector<Node *> nodes(block.nodes().begin(),
                            block.nodes().end()); // tryNode may change the list
  for (Node *node : nodes) {
    for (Block *inner : node->blocks())
      if (firstNode(*inner, tryNode))
        return true;
    if (tryNode(node))
      return true;
  }
  return false;
}

bool firstNode(Graphs graphs, OnNode tryNode) {
  return llvm::any_of(graphs, [&](Graph *graph) { return firstNode(*graph->block(), tryNode); });
}

bool isOp(const Node *node, llvm::ArrayRef<llvm::StringRef> names) {
  return llvm::is_contained(names, llvm::StringRef(node->kind().toQualString()));
}

bool isTensor(const Value *value) { return value->type()->kind() == c10::TypeKind::TensorType; }

bool isWrite(const Node *node) {
  const c10::FunctionSchema *schema = node->maybeSchema();
  return schema && schema->is_mutable() && !node->inputs().empty() && node->outputs().size() == 1 &&
         isTensor(node->output());
}

bool isRandom(const Node *node) { return isRandomOp(node->kind().toQualString()); }

bool replaceSymbol(Node *node, llvm::StringRef name) {
  node->replaceWithNewSymbol(c10::Symbol::fromQualString(name.str()));
  node->destroy();
  return true;
}

bool bypass(Node *node) {
  node->output()->replaceAllUsesWith(node->input(0));
  node->destroy();
  return true;
}

} // namespace

bool swappedOperands(Graphs graphs) {
  return firstNode(graphs, [](Node *node) {
    if (!isOp(node, {"aten::sub", "aten::div", "aten::matmul", "aten::mul", "aten::add"}) ||
        !isTensor(node->input(0)) || !isTensor(node->input(1)) || node->input(0) == node->input(1))
      return false;
    Value *first = node->input(0);
    node->replaceInput(0, node->input(1));
    node->replaceInput(1, first);
    return true;
  });
}

bool wrongOperator(Graphs graphs) {
  return firstNode(graphs, [](Node *node) {
    return isOp(node, {"aten::relu", "aten::tanh"}) && replaceSymbol(node, "aten::sigmoid");
  });
}

/// add(Tensor, Tensor, alpha) -> add(Tensor, Scalar, alpha): the same name, another operator.
bool wrongOverload(Graphs graphs) {
  return firstNode(graphs, [](Node *node) {
    if (!isOp(node, {"aten::add", "aten::sub", "aten::mul", "aten::div"}) ||
        !isTensor(node->input(0)) || !isTensor(node->input(1)))
      return false;
    torch::jit::WithInsertPoint here(node);
    node->replaceInput(1, node->owningGraph()->insertConstant(1.0));
    return true;
  });
}

namespace {

bool changedConstant(Graphs graphs, c10::TypeKind kind,
                     llvm::function_ref<c10::IValue(const c10::IValue &)> change) {
  return firstNode(graphs, [&](Node *node) {
    if (node->kind() != c10::prim::Constant || node->output()->type()->kind() != kind ||
        node->output()->uses().empty())
      return false;
    std::optional<c10::IValue> old = torch::jit::toIValue(node->output());
    if (!old || old->isNone())
      return false;
    torch::jit::WithInsertPoint here(node);
    node->output()->replaceAllUsesWith(node->owningGraph()->insertConstant(change(*old)));
    return true;
  });
}

} // namespace

bool wrongIntConstant(Graphs graphs) {
  return changedConstant(graphs, c10::TypeKind::IntType,
                         [](const c10::IValue &old) { return c10::IValue(old.toInt() + 1); });
}

/// By the last bit.
bool wrongFloatConstant(Graphs graphs) {
  return changedConstant(graphs, c10::TypeKind::FloatType, [](const c10::IValue &old) {
    return c10::IValue(std::nextafter(old.toDouble(), 1e300));
  });
}

bool wrongBoolConstant(Graphs graphs) {
  return changedConstant(graphs, c10::TypeKind::BoolType,
                         [](const c10::IValue &old) { return c10::IValue(!old.toBool()); });
}

bool wrongAlpha(Graphs graphs) {
  return firstNode(graphs, [](Node *node) {
    if (!isOp(node, {"aten::add", "aten::sub"}) || node->inputs().size() < 3 ||
        !isTensor(node->input(0)))
      return false;
    torch::jit::WithInsertPoint here(node);
    node->replaceInput(2, node->owningGraph()->insertConstant(2));
    return true;
  });
}

bool droppedNode(Graphs graphs) {
  return firstNode(graphs, [](Node *node) {
    return isOp(node, {"aten::relu", "aten::tanh", "aten::sigmoid", "aten::gelu"}) && bypass(node);
  });
}

bool extraNode(Graphs graphs) {
  return firstNode(graphs, [](Node *node) {
    if (!isOp(node, {"aten::linear", "aten::relu", "aten::tanh"}))
      return false;
    Graph *graph = node->owningGraph();
    Node *extra = graph->create(c10::aten::neg, {node->output()})->insertAfter(node);
    node->output()->replaceAllUsesAfterNodeWith(extra, extra->output());
    return true;
  });
}

bool lostGradient(StagedModel &model) {
  return firstNode(graphsOf(model), [](Node *node) {
    if (!isOp(node, {"aten::linear"}))
      return false;
    Node *detach = node->owningGraph()->create(c10::aten::detach, {node->output()});
    detach->insertAfter(node);
    node->output()->replaceAllUsesAfterNodeWith(detach, detach->output());
    return true;
  });
}

/// y + (y - y.detach()): the elements of y, and twice its gradient.
bool doubledGradient(StagedModel &model) {
  return firstNode(graphsOf(model), [](Node *node) {
    if (!isOp(node, {"aten::linear"}))
      return false;
    Value *result = node->output();
    torch::jit::WithInsertPoint guard(node->next());
    torch::jit::Graph &graph = *node->owningGraph();
    Value *one = graph.insertConstant(1);
    Node *detach = graph.insertNode(graph.create(c10::aten::detach, {result}));
    Node *nothing = graph.insertNode(graph.create(c10::aten::sub, {result, detach->output(), one}));
    Node *twice = graph.insertNode(graph.create(c10::aten::add, {result, nothing->output(), one}));
    result->replaceAllUsesAfterNodeWith(twice, twice->output());
    return true;
  });
}

bool duplicatedRandom(Graphs graphs) {
  return firstNode(graphs, [](Node *node) {
    if (!isOp(node, {"aten::dropout"}))
      return false;
    Node *again = node->owningGraph()
                      ->createClone(node, [](Value *value) { return value; })
                      ->insertAfter(node);
    again->replaceInput(0, node->output());
    node->output()->replaceAllUsesAfterNodeWith(again, again->output());
    return true;
  });
}

namespace {

/// True when no node up to `last` (inclusive) reads a result of `node`.
bool unreadUntil(Node *node, Node *last) {
  for (Value *output : node->outputs())
    for (const Use &use : output->uses())
      if (use.user == last || use.user->isBefore(last))
        return false;
  return true;
}

} // namespace

bool reorderedNodes(Graphs graphs) {
  return firstNode(graphs, [](Node *node) {
    if (!isWrite(node) && !isRandom(node))
      return false;
    for (Node *other = node->next(); other->kind() != c10::prim::Return; other = other->next())
      if ((isWrite(other) || isRandom(other)) && unreadUntil(node, other)) {
        node->moveAfter(other);
        return true;
      }
    return false;
  });
}

bool lostWrite(Graphs graphs) {
  return firstNode(graphs, [](Node *node) { return isWrite(node) && bypass(node); });
}

bool writeMadePure(Graphs graphs) {
  return firstNode(graphs, [](Node *node) {
    llvm::StringRef name = node->kind().toQualString();
    return isWrite(node) && name.consume_back("_") &&
           isOp(node, {"aten::add_", "aten::mul_", "aten::relu_"}) && replaceSymbol(node, name);
  });
}

bool droppedRaise(Graphs graphs) {
  return firstNode(graphs, [](Node *node) {
    if (node->kind() != c10::prim::RaiseException)
      return false;
    node->destroy();
    return true;
  });
}

namespace {

/// The node's first input becomes a constant.
bool fixedInput(Graphs graphs, c10::Symbol kind, const c10::IValue &value) {
  return firstNode(graphs, [&](Node *node) {
    if (node->kind() != kind)
      return false;
    torch::jit::WithInsertPoint here(node);
    node->replaceInput(0, node->owningGraph()->insertConstant(value));
    return true;
  });
}

} // namespace

bool droppedBranch(Graphs graphs) { return fixedInput(graphs, c10::prim::If, true); }
bool lostIterations(Graphs graphs) { return fixedInput(graphs, c10::prim::Loop, 1); }

namespace {

/// Values that `node` may read instead of `value`: of the same type and made before it in its
/// block, or arguments of the graph; the nearest first.
Value *otherValue(Node *node, Value *value) {
  auto suits = [&](Value *other) { return other != value && *other->type() == *value->type(); };
  for (Node *before = node->prev(); before->kind() != c10::prim::Param; before = before->prev())
    for (Value *output : before->outputs())
      if (before->kind() != c10::prim::Constant && suits(output))
        return output;
  for (Value *argument : node->owningGraph()->inputs())
    if (suits(argument))
      return argument;
  return nullptr;
}

bool readAnother(Graphs graphs, c10::TypeKind kind) {
  return firstNode(graphs, [&](Node *node) {
    if (!node->kind().is_aten() || isWrite(node) || node->outputs().size() != 1 ||
        !isTensor(node->output()))
      return false;
    for (size_t i = 0; i < node->inputs().size(); ++i)
      if (node->input(i)->type()->kind() == kind &&
          node->input(i)->node()->kind() != c10::prim::Constant)
        if (Value *other = otherValue(node, node->input(i))) {
          node->replaceInput(i, other);
          return true;
        }
    return false;
  });
}

} // namespace

bool wrongValue(Graphs graphs) { return readAnother(graphs, c10::TypeKind::TensorType); }
bool wrongNumber(Graphs graphs) { return readAnother(graphs, c10::TypeKind::IntType); }

bool swappedElements(Graphs graphs) {
  return firstNode(graphs, [](Node *node) {
    size_t step = node->kind() == c10::prim::DictConstruct ? 2 : 1; // keys stay
    if (!isOp(node, {"prim::ListConstruct", "prim::TupleConstruct", "prim::DictConstruct"}) ||
        node->inputs().size() <= 2 * step - 1)
      return false;
    Value *first = node->input(step - 1), *second = node->input(2 * step - 1);
    if (first == second || *first->type() != *second->type())
      return false;
    node->replaceInput(step - 1, second);
    node->replaceInput(2 * step - 1, first);
    return true;
  });
}

bool wrongModule(Model &model) {
  return firstNode(model.graph.get(), [](Node *node) {
    if (node->kind() != c10::prim::GetAttr)
      return false;
    const auto owner = node->input(0)->type()->cast<c10::ClassType>();
    for (const c10::ClassAttribute &other : owner->getAttributes())
      if (other.getName() != node->s(c10::attr::name) && other.getType()->is_module() &&
          *other.getType() == *node->output()->type()) {
        node->s_(c10::attr::name, other.getName());
        return true;
      }
    return false;
  });
}

bool lostBoundary(Model &model) {
  return firstNode(model.graph.get(), [](Node *node) {
    if (!isOp(node, {"pipec::cut"}))
      return false;
    node->destroy();
    return true;
  });
}

/// The last boundary moves to where it parts a write from a later look at the same memory.
bool tornWrite(Model &model) {
  Node *last = nullptr;
  firstNode(model.graph.get(), [&](Node *node) {
    last = isOp(node, {"pipec::cut"}) ? node : last;
    return false;
  });
  return last && firstNode(model.graph.get(), [&](Node *node) {
           if (!isWrite(node) || node->owningBlock() != last->owningBlock() ||
               !llvm::any_of(node->input(0)->uses(), [&](const Use &use) {
                 return use.user->owningBlock() == node->owningBlock() && use.user->isAfter(node);
               }))
             return false;
           last->moveAfter(node);
           return true;
         });
}

// What GraphEdits.h declares for the other faults, so that one file of this folder pays for
// LibTorch's headers.

std::vector<Graph *> graphsOf(StagedModel &model) {
  std::vector<Graph *> graphs;
  for (Stage &stage : llvm::reverse(model.stages))
    graphs.push_back(stage.graph.get());
  return graphs;
}

size_t usesOf(const Stage &stage, size_t input) {
  return stage.graph->inputs()[input]->uses().size();
}

bool haveOneType(const Stage &stage, size_t a, size_t b) {
  return *stage.graph->inputs()[a]->type() == *stage.graph->inputs()[b]->type();
}

void exchangeInputs(Stage &stage, size_t a, size_t b) {
  torch::jit::Value *first = stage.graph->inputs()[a], *second = stage.graph->inputs()[b];
  const std::vector<torch::jit::Use> usesOfFirst = first->uses(), usesOfSecond = second->uses();
  for (const torch::jit::Use &use : usesOfFirst)
    use.user->replaceInput(use.offset, second);
  for (const torch::jit::Use &use : usesOfSecond)
    use.user->replaceInput(use.offset, first);
}

bool exchangeOutputs(Graph &graph, size_t a, size_t b) {
  torch::jit::Block *block = graph.block();
  torch::jit::Value *first = block->outputs()[a], *second = block->outputs()[b];
  block->replaceOutput(a, second);
  block->replaceOutput(b, first);
  return first != second && *first->type() == *second->type();
}

void returnInput(Graph &graph, size_t output, size_t input) {
  graph.block()->replaceOutput(output, graph.inputs()[input]);
}

void eraseInput(Stage &stage, size_t input) { stage.graph->eraseInput(input); }

void eraseOutput(Stage &stage, size_t output) { stage.graph->eraseOutput(output); }

} // namespace pipec::faults
