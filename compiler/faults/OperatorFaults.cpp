// Faults in the graphs: operators, constants, control flow.
#include "compiler/faults/Faults.h"
#include "compiler/faults/GraphEdits.h"
#include "ir/RandomOps.h"
#include "llvm/ADT/STLExtras.h"

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

/// Stages from the last to the first: what is wrong at the end is found only by a proof that looks
/// at everything.
bool firstNode(StagedModel &model, OnNode tryNode) {
  return llvm::any_of(llvm::reverse(model.stages),
                      [&](Stage &stage) { return firstNode(*stage.graph->block(), tryNode); });
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

bool swappedOperands(StagedModel &model) {
  return firstNode(model, [](Node *node) {
    if (!isOp(node, {"aten::sub", "aten::div", "aten::matmul", "aten::mul", "aten::add"}) ||
        !isTensor(node->input(0)) || !isTensor(node->input(1)) || node->input(0) == node->input(1))
      return false;
    Value *first = node->input(0);
    node->replaceInput(0, node->input(1));
    node->replaceInput(1, first);
    return true;
  });
}

bool wrongOperator(StagedModel &model) {
  return firstNode(model, [](Node *node) {
    return isOp(node, {"aten::relu", "aten::tanh"}) && replaceSymbol(node, "aten::sigmoid");
  });
}

/// add(Tensor, Tensor, alpha) -> add(Tensor, Scalar, alpha): the same name, another operator.
bool wrongOverload(StagedModel &model) {
  return firstNode(model, [](Node *node) {
    if (!isOp(node, {"aten::add", "aten::sub", "aten::mul", "aten::div"}) ||
        !isTensor(node->input(0)) || !isTensor(node->input(1)))
      return false;
    torch::jit::WithInsertPoint here(node);
    node->replaceInput(1, node->owningGraph()->insertConstant(1.0));
    return true;
  });
}

namespace {

bool changedConstant(StagedModel &model, c10::TypeKind kind,
                     llvm::function_ref<c10::IValue(const c10::IValue &)> change) {
  return firstNode(model, [&](Node *node) {
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

bool wrongIntConstant(StagedModel &model) {
  return changedConstant(model, c10::TypeKind::IntType,
                         [](const c10::IValue &old) { return c10::IValue(old.toInt() + 1); });
}

/// By the last bit.
bool wrongFloatConstant(StagedModel &model) {
  return changedConstant(model, c10::TypeKind::FloatType, [](const c10::IValue &old) {
    return c10::IValue(std::nextafter(old.toDouble(), 1e300));
  });
}

bool wrongBoolConstant(StagedModel &model) {
  return changedConstant(model, c10::TypeKind::BoolType,
                         [](const c10::IValue &old) { return c10::IValue(!old.toBool()); });
}

bool wrongAlpha(StagedModel &model) {
  return firstNode(model, [](Node *node) {
    if (!isOp(node, {"aten::add", "aten::sub"}) || node->inputs().size() < 3 ||
        !isTensor(node->input(0)))
      return false;
    torch::jit::WithInsertPoint here(node);
    node->replaceInput(2, node->owningGraph()->insertConstant(2));
    return true;
  });
}

bool droppedNode(StagedModel &model) {
  return firstNode(model, [](Node *node) {
    return isOp(node, {"aten::relu", "aten::tanh", "aten::sigmoid", "aten::gelu"}) && bypass(node);
  });
}

bool extraNode(StagedModel &model) {
  return firstNode(model, [](Node *node) {
    if (!isOp(node, {"aten::linear", "aten::relu", "aten::tanh"}))
      return false;
    Graph *graph = node->owningGraph();
    Node *extra = graph->create(c10::aten::neg, {node->output()})->insertAfter(node);
    node->output()->replaceAllUsesAfterNodeWith(extra, extra->output());
    return true;
  });
}

bool duplicatedRandom(StagedModel &model) {
  return firstNode(model, [](Node *node) {
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

bool reorderedNodes(StagedModel &model) {
  return firstNode(model, [](Node *node) {
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

bool lostWrite(StagedModel &model) {
  return firstNode(model, [](Node *node) { return isWrite(node) && bypass(node); });
}

bool writeMadePure(StagedModel &model) {
  return firstNode(model, [](Node *node) {
    llvm::StringRef name = node->kind().toQualString();
    return isWrite(node) && name.consume_back("_") &&
           isOp(node, {"aten::add_", "aten::mul_", "aten::relu_"}) && replaceSymbol(node, name);
  });
}

bool droppedRaise(StagedModel &model) {
  return firstNode(model, [](Node *node) {
    if (node->kind() != c10::prim::RaiseException)
      return false;
    node->destroy();
    return true;
  });
}

namespace {

/// The node's first input becomes a constant.
bool fixedInput(StagedModel &model, c10::Symbol kind, const c10::IValue &value) {
  return firstNode(model, [&](Node *node) {
    if (node->kind() != kind)
      return false;
    torch::jit::WithInsertPoint here(node);
    node->replaceInput(0, node->owningGraph()->insertConstant(value));
    return true;
  });
}

} // namespace

bool droppedBranch(StagedModel &model) { return fixedInput(model, c10::prim::If, true); }
bool lostIterations(StagedModel &model) { return fixedInput(model, c10::prim::Loop, 1); }

// What GraphEdits.h declares for the other faults, so that one file of this folder pays for
// LibTorch's headers.

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

bool exchangeOutputs(Stage &stage, size_t a, size_t b) {
  torch::jit::Block *block = stage.graph->block();
  torch::jit::Value *first = block->outputs()[a], *second = block->outputs()[b];
  block->replaceOutput(a, second);
  block->replaceOutput(b, first);
  return first != second;
}

void returnInput(Stage &stage, size_t output, size_t input) {
  stage.graph->block()->replaceOutput(output, stage.graph->inputs()[input]);
}

void eraseInput(Stage &stage, size_t input) { stage.graph->eraseInput(input); }

void eraseOutput(Stage &stage, size_t output) { stage.graph->eraseOutput(output); }

} // namespace pipec::faults
