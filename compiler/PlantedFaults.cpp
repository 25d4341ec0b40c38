#include "compiler/PlantedFaults.h"

#ifdef PIPEC_PLANTED_FAULTS

#include "ir/RandomOps.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

#include <cmath>

namespace pipec {

namespace {

using torch::jit::Block;
using torch::jit::Graph;
using torch::jit::Node;
using torch::jit::Use;
using torch::jit::Value;

// --- Finding a place
// ------------------------------------------------------------------------------------------------------------------
// Every helper and every fault returns whether it found one.

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

void exchangeUses(Value *a, Value *b) {
  std::vector<Use> usesOfA = a->uses(), usesOfB = b->uses();
  for (const Use &use : usesOfA)
    use.user->replaceInput(use.offset, b);
  for (const Use &use : usesOfB)
    use.user->replaceInput(use.offset, a);
}

/// Graph input of an attribute of a stage.
Value *inputOf(const Stage &stage, size_t attribute) {
  return stage.graph->inputs()[stage.plan.inputs.size() + attribute];
}

// --- Operators
// ------------------------------------------------------------------------------------------------------------------------
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

/// True when no node up to `last` (inclusive) reads a result of `node`.
bool unreadUntil(Node *node, Node *last) {
  for (Value *output : node->outputs())
    for (const Use &use : output->uses())
      if (use.user == last || use.user->isBefore(last))
        return false;
  return true;
}

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

bool droppedBranch(StagedModel &model) { return fixedInput(model, c10::prim::If, true); }
bool lostIterations(StagedModel &model) { return fixedInput(model, c10::prim::Loop, 1); }

// --- Ports and channels
// ---------------------------------------------------------------------------------------------------------------
bool swappedPorts(StagedModel &model) {
  for (Stage &stage : llvm::reverse(model.stages))
    for (size_t a = 0; a < stage.plan.inputs.size(); ++a)
      for (size_t b = a + 1; b < stage.plan.inputs.size(); ++b)
        if (stage.plan.inputs[a].type == stage.plan.inputs[b].type) {
          exchangeUses(stage.graph->inputs()[a], stage.graph->inputs()[b]);
          return true;
        }
  return false;
}

bool swappedOutputs(StagedModel &model) {
  for (Stage &stage : llvm::reverse(model.stages))
    for (size_t a = 0; a < stage.plan.outputs.size(); ++a)
      for (size_t b = a + 1; b < stage.plan.outputs.size(); ++b) {
        Block *block = stage.graph->block();
        Value *first = block->outputs()[a], *second = block->outputs()[b];
        if (stage.plan.outputs[a].type != stage.plan.outputs[b].type || first == second)
          continue;
        block->replaceOutput(a, second);
        block->replaceOutput(b, first);
        return true;
      }
  return false;
}

bool goesFurther(const Channel &channel) {
  return llvm::any_of(channel.to,
                      [&](const PortRef &to) { return to.stage != channel.from.stage + 1; });
}

/// The plan stays well-formed: only what is computed becomes another thing.
void redirect(StagedModel &model, size_t stage, size_t port, size_t from, size_t to) {
  llvm::erase_value(model.channels[from].to, PortRef{stage, port});
  std::vector<PortRef> &ends = model.channels[to].to;
  ends.push_back({stage, port});
  llvm::sort(ends, [](const PortRef &a, const PortRef &b) {
    return std::pair(a.stage, a.port) < std::pair(b.stage, b.port);
  });
  model.stages[stage].plan.inputs[port].index = to;
  for (size_t channel : {from, to})
    model.channels[channel].skip = goesFurther(model.channels[channel]);
}

bool wrongChannel(StagedModel &model) {
  for (size_t c = 0; c < model.channels.size(); ++c) {
    const Channel &channel = model.channels[c];
    if (channel.kind != Channel::Kind::Activation || channel.to.size() < 2)
      continue;
    PortRef last = channel.to.back();
    for (size_t d = 0; d < model.channels.size(); ++d)
      if (d != c && model.channels[d].kind == Channel::Kind::Activation &&
          model.channels[d].type == channel.type && model.channels[d].from.stage < last.stage) {
        redirect(model, last.stage, last.port, c, d);
        return true;
      }
  }
  return false;
}

bool wrongUserInput(StagedModel &model) {
  for (Stage &stage : llvm::reverse(model.stages))
    for (StageInput &input : stage.plan.inputs)
      for (size_t i = 0;
           input.kind == StageInput::Kind::UserInput && i < model.signature.inputs.size(); ++i)
        if (i != input.index && model.signature.inputs[i].type == input.type) {
          input.index = i;
          return true;
        }
  return false;
}

bool swappedLeaves(StagedModel &model) {
  std::vector<std::vector<size_t> *> owners;
  for (Stage &stage : model.stages)
    for (StageOutput &output : stage.plan.outputs)
      if (output.leaves.size() == 1 && output.type == "Tensor")
        owners.push_back(&output.leaves);
  if (owners.size() < 2)
    return false;
  std::swap(*owners[0], *owners[1]);
  return true;
}

// --- State
// ----------------------------------------------------------------------------------------------------------------------------
using OnState = llvm::function_ref<bool(Stage &, size_t output)>;

bool firstState(StagedModel &model, OnState tryState) {
  for (Stage &stage : model.stages)
    for (size_t i = 0; i < stage.plan.outputs.size(); ++i)
      if (stage.plan.outputs[i].state && tryState(stage, i))
        return true;
  return false;
}

bool lostState(StagedModel &model) {
  return firstState(model, [](Stage &stage, size_t output) {
    stage.graph->block()->replaceOutput(output, inputOf(stage, *stage.plan.outputs[output].state));
    return true;
  });
}

bool droppedState(StagedModel &model) {
  return firstState(model, [&](Stage &stage, size_t output) {
    if (output + 1 != stage.plan.outputs.size()) // other ports keep their numbers
      return false;
    stage.graph->eraseOutput(output);
    stage.plan.outputs.pop_back();
    return true;
  });
}

bool wrongState(StagedModel &model) {
  return firstState(model, [](Stage &stage, size_t output) {
    size_t &state = *stage.plan.outputs[output].state;
    for (size_t i = 0; i < stage.plan.attributes.size(); ++i)
      if (i != state && stage.plan.attributes[i].written &&
          *inputOf(stage, i)->type() == *inputOf(stage, state)->type()) {
        state = i;
        return true;
      }
    return false;
  });
}

// --- Weights
// --------------------------------------------------------------------------------------------------------------------------
bool isWeight(const Attribute &attribute) {
  return attribute.kind == AttributeKind::Parameter && attribute.value.isTensor();
}

/// The attributes hold views of the source file: a changed one is a copy.
bool changedTensor(StagedModel &model, llvm::function_ref<bool(const Attribute &)> suits,
                   llvm::function_ref<at::Tensor(const at::Tensor &)> change) {
  for (Attribute &attribute : llvm::reverse(model.attributes))
    if (attribute.value.isTensor() && attribute.value.toTensor().numel() > 0 && suits(attribute)) {
      const at::Tensor &tensor = attribute.value.toTensor();
      bool grad = tensor.requires_grad();
      at::Tensor changed = change(tensor.detach());
      attribute.value = changed.is_leaf() && changed.is_floating_point()
                            ? changed.set_requires_grad(grad)
                            : changed;
      return true;
    }
  return false;
}

at::Tensor withLastElementChanged(const at::Tensor &tensor) {
  at::Tensor copy = tensor.clone();
  at::Tensor last = copy;
  while (last.dim() > 0)
    last = last.select(0, -1);
  last.add_(1);
  return copy;
}

bool wrongWeight(StagedModel &model) {
  return changedTensor(model, isWeight, withLastElementChanged);
}

bool wrongConstantTensor(StagedModel &model) {
  return changedTensor(
      model, [](const Attribute &attribute) { return attribute.kind == AttributeKind::Constant; },
      withLastElementChanged);
}

bool wrongUnreadWeight(StagedModel &model) {
  auto unread = [&](const Attribute &attribute) {
    return llvm::all_of(model.stages, [&](const Stage &stage) {
      return llvm::all_of(stage.plan.attributes, [&](const StageAttribute &entry) {
        return entry.name != attribute.name || entry.uses == 0;
      });
    });
  };
  return changedTensor(
      model, [&](const Attribute &attribute) { return isWeight(attribute) && unread(attribute); },
      withLastElementChanged);
}

/// The same elements, other strides: the same numbers, until an operator adds them in another
/// order.
bool transposedWeight(StagedModel &model) {
  auto matrix = [](const Attribute &attribute) {
    return isWeight(attribute) && attribute.value.toTensor().dim() == 2;
  };
  return changedTensor(model, matrix,
                       [](const at::Tensor &tensor) { return tensor.t().contiguous().t(); });
}

bool wrongDtype(StagedModel &model) {
  return changedTensor(model, isWeight,
                       [](const at::Tensor &tensor) { return tensor.to(at::kDouble); });
}

bool wrongRequiresGrad(StagedModel &model) {
  for (Attribute &attribute : model.attributes)
    if (isWeight(attribute) && attribute.requiresGrad) {
      attribute.value = attribute.value.toTensor().detach();
      return true;
    }
  return false;
}

using OnPair = llvm::function_ref<bool(Attribute &, Attribute &)>;

bool firstPairOfEqualShape(StagedModel &model, OnPair tryPair) {
  for (Attribute &a : model.attributes)
    for (Attribute &b : model.attributes)
      if (&a != &b && isWeight(a) && isWeight(b) && a.storage != b.storage &&
          a.value.toTensor().sizes() == b.value.toTensor().sizes() && tryPair(a, b))
        return true;
  return false;
}

bool swappedWeights(StagedModel &model) {
  return firstPairOfEqualShape(model, [](Attribute &a, Attribute &b) {
    std::swap(a.value, b.value);
    std::swap(a.storage, b.storage);
    return true;
  });
}

const Attribute &attributeOf(const StagedModel &model, const StageAttribute &entry) {
  return *llvm::find_if(model.attributes,
                        [&](const Attribute &attribute) { return attribute.name == entry.name; });
}

bool equalWeights(const StagedModel &model, const StageAttribute &a, const StageAttribute &b) {
  const Attribute &first = attributeOf(model, a), &second = attributeOf(model, b);
  return isWeight(first) && isWeight(second) && first.storage != second.storage &&
         first.value.toTensor().sizes() == second.value.toTensor().sizes();
}

/// An operator reads another weight of its stage.
bool wrongBias(StagedModel &model) {
  for (Stage &stage : llvm::reverse(model.stages))
    for (size_t a = 0; a < stage.plan.attributes.size(); ++a)
      for (size_t b = a + 1; b < stage.plan.attributes.size(); ++b)
        if (equalWeights(model, stage.plan.attributes[a], stage.plan.attributes[b]) &&
            !inputOf(stage, a)->uses().empty() && !inputOf(stage, b)->uses().empty()) {
          exchangeUses(inputOf(stage, a), inputOf(stage, b));
          return true;
        }
  return false;
}

bool lostWeight(StagedModel &model) {
  for (Stage &stage : model.stages)
    for (size_t i = stage.plan.attributes.size(); i-- > 0;) {
      const StageAttribute &entry = stage.plan.attributes[i];
      if (entry.uses != 0 || entry.channel || entry.kind == AttributeKind::Constant ||
          !stage.plan.weightChannelsOut.empty())
        continue;
      for (StageOutput &output : stage.plan.outputs)
        if (output.state && *output.state > i)
          --*output.state;
      stage.graph->eraseInput(stage.plan.inputs.size() + i);
      stage.plan.attributes.erase(stage.plan.attributes.begin() + i);
      return true;
    }
  return false;
}

/// The state dict loses a name of a tied weight.
bool lostName(StagedModel &model) {
  for (Stage &stage : model.stages)
    for (StageAttribute &entry : stage.plan.attributes)
      if (!entry.otherNames.empty() && !entry.channel) {
        entry.otherNames.clear();
        return true;
      }
  return false;
}

bool wrongKind(StagedModel &model) {
  for (Stage &stage : model.stages)
    for (StageAttribute &entry : stage.plan.attributes)
      if (entry.kind == AttributeKind::Parameter && !entry.channel) {
        entry.kind = AttributeKind::Buffer;
        return true;
      }
  return false;
}

/// Two tensors that see the same memory in the source no longer do.
bool lostOverlap(StagedModel &model) {
  for (Attribute &a : model.attributes)
    for (Attribute &b : model.attributes)
      if (&a != &b && a.storage >= 0 && a.storage == b.storage &&
          a.kind != AttributeKind::Constant) {
        for (const Attribute &attribute : model.attributes)
          b.storage = std::max(b.storage, attribute.storage + 1);
        b.value = b.value.toTensor().clone();
        return true;
      }
  return false;
}

/// The last stage's copy of a tied weight is another one, under the weight's other name.
bool wrongTie(StagedModel &model) {
  for (const Tie &tie : model.ties)
    for (StageAttribute &entry : model.stages[tie.stages.back()].plan.attributes)
      if (entry.otherNames.size() > 0 && llvm::is_contained(tie.names, entry.name) &&
          !entry.channel) {
        Attribute copy = attributeOf(model, entry);
        copy.value = withLastElementChanged(copy.value.toTensor().detach())
                         .set_requires_grad(entry.requiresGrad);
        std::swap(entry.name, entry.otherNames[0]);
        copy.name = entry.name;
        copy.otherNames = entry.otherNames;
        copy.storage = static_cast<int64_t>(model.attributes.size()) + 1000;
        model.attributes.push_back(std::move(copy));
        return true;
      }
  return false;
}

/// A stage is sent another weight than the one it asks for.
bool wrongWeightChannel(StagedModel &model) {
  for (Channel &channel : model.channels) {
    if (channel.kind != Channel::Kind::Weight)
      continue;
    const std::vector<StageAttribute> &owned = model.stages[channel.from.stage].plan.attributes;
    for (size_t i = 0; i < owned.size(); ++i)
      if (i != channel.from.port && !owned[i].channel &&
          equalWeights(model, owned[i], owned[channel.from.port])) {
        channel.from.port = i;
        return true;
      }
  }
  return false;
}

// --- What the plan says besides the graphs
// --------------------------------------------------------------------------------------------
bool wrongRandomKey(StagedModel &model) {
  for (Stage &stage : llvm::reverse(model.stages))
    if (!stage.plan.effects.randomOps.empty()) {
      ++stage.plan.effects.randomOps.back();
      return true;
    }
  return false;
}

bool lostWrittenMark(StagedModel &model) {
  for (Stage &stage : model.stages)
    for (size_t i = 0; i < stage.plan.attributes.size(); ++i) {
      bool isState = llvm::any_of(stage.plan.outputs,
                                  [&](const StageOutput &output) { return output.state == i; });
      if (stage.plan.attributes[i].written && !isState) {
        stage.plan.attributes[i].written = false;
        return true;
      }
    }
  return false;
}

bool lostRaiseMark(StagedModel &model) {
  for (Stage &stage : model.stages)
    if (std::exchange(stage.plan.effects.raises, false))
      return true;
  return false;
}

bool swappedKeys(OutputTree &tree) {
  if (tree.keys.size() > 1) {
    std::swap(tree.keys[0], tree.keys[1]);
    return true;
  }
  return llvm::any_of(tree.children, [](OutputTree &child) { return swappedKeys(child); });
}

bool wrongOutputTree(StagedModel &model) { return swappedKeys(model.signature.outputs); }

bool wrongMerge(StagedModel &model) {
  for (OutputLeaf &leaf : model.signature.leaves)
    if (leaf.merge.kind == MergeRule::Kind::Concat) {
      ++leaf.merge.dim;
      return true;
    }
  return false;
}

bool wrongBatchDim(StagedModel &model) {
  for (InputSpec &input : model.signature.inputs)
    if (input.batchDim) {
      ++*input.batchDim;
      return true;
    }
  return false;
}

bool wrongDefault(StagedModel &model) {
  for (InputSpec &input : model.signature.inputs)
    if (input.defaultValue) {
      input.defaultValue = llvm::json::Value(7);
      return true;
    }
  return false;
}

// --- The table
// ------------------------------------------------------------------------------------------------------------------------
struct Fault {
  llvm::StringLiteral name;
  llvm::StringLiteral what;
  bool (*plant)(StagedModel &);
};

constexpr Fault kFaults[] = {
    {"swapped-operands", "an operator gets its two operands the other way round", swappedOperands},
    {"wrong-operator", "relu becomes sigmoid", wrongOperator},
    {"wrong-overload", "an operator on two tensors becomes one on a tensor and a number",
     wrongOverload},
    {"wrong-int-constant", "an int is one larger", wrongIntConstant},
    {"wrong-float-constant", "a float differs in its last bit", wrongFloatConstant},
    {"wrong-bool-constant", "a bool is the other one", wrongBoolConstant},
    {"wrong-alpha", "add multiplies its second operand by 2", wrongAlpha},
    {"dropped-node", "an activation function is left out", droppedNode},
    {"extra-node", "a result is negated", extraNode},
    {"duplicated-random", "dropout is applied twice", duplicatedRandom},
    {"reordered-nodes", "two operators whose order counts change places", reorderedNodes},
    {"lost-write", "an in-place operator is left out", lostWrite},
    {"write-made-pure", "an in-place operator no longer writes", writeMadePure},
    {"dropped-raise", "a raise is left out", droppedRaise},
    {"dropped-branch", "an if always takes its first branch", droppedBranch},
    {"lost-iterations", "a loop runs once", lostIterations},
    {"swapped-ports", "a stage takes two of its inputs for one another", swappedPorts},
    {"swapped-outputs", "a stage returns two of its outputs for one another", swappedOutputs},
    {"wrong-channel", "a stage reads another channel of equal type", wrongChannel},
    {"wrong-user-input", "a stage reads another argument of the model", wrongUserInput},
    {"swapped-leaves", "two results of the model change places", swappedLeaves},
    {"lost-state", "an assigned attribute keeps its old value", lostState},
    {"dropped-state", "an assignment to an attribute is left out", droppedState},
    {"wrong-state", "a value is assigned to another attribute", wrongState},
    {"wrong-weight", "one element of a weight differs", wrongWeight},
    {"wrong-unread-weight", "one element of a weight that no operator reads differs",
     wrongUnreadWeight},
    {"wrong-constant-tensor", "one element of a tensor constant differs", wrongConstantTensor},
    {"transposed-weight", "a weight has other strides", transposedWeight},
    {"wrong-dtype", "a weight has another dtype", wrongDtype},
    {"wrong-requires-grad", "a weight no longer requires grad", wrongRequiresGrad},
    {"swapped-weights", "two weights of one shape hold each other's elements", swappedWeights},
    {"wrong-bias", "an operator reads another weight of the same shape", wrongBias},
    {"lost-weight", "a weight that no operator reads is in no stage", lostWeight},
    {"lost-name", "a tied weight has lost its other names", lostName},
    {"wrong-kind", "a parameter is a buffer", wrongKind},
    {"lost-overlap", "two tensors that share memory no longer do", lostOverlap},
    {"wrong-tie", "a copy of a tied weight differs", wrongTie},
    {"wrong-weight-channel", "a stage is sent another weight of the same shape",
     wrongWeightChannel},
    {"wrong-random-key", "a random operator has the number of another", wrongRandomKey},
    {"lost-written-mark", "the plan does not say that a buffer is written", lostWrittenMark},
    {"lost-raise-mark", "the plan does not say that a stage may raise", lostRaiseMark},
    {"wrong-output-tree", "two keys of a dict result change places", wrongOutputTree},
    {"wrong-merge", "micro-batches are joined along another dimension", wrongMerge},
    {"wrong-batch-dim", "an argument is cut along another dimension", wrongBatchDim},
    {"wrong-default", "an argument has another default value", wrongDefault},
};

/// pipec_forward has one argument per use of a trainable weight: a fault must not be found only
/// because these do not add up.
void countUses(StagedModel &model) {
  for (Stage &stage : model.stages)
    for (size_t i = 0; i < stage.plan.attributes.size(); ++i) {
      StageAttribute &entry = stage.plan.attributes[i];
      size_t uses = inputOf(stage, i)->uses().size();
      bool perUse = entry.kind == AttributeKind::Parameter && entry.requiresGrad;
      entry.uses = perUse ? uses : std::min<size_t>(uses, 1);
    }
}

} // namespace

llvm::ArrayRef<llvm::StringRef> plantedFaults() {
  static const std::vector<llvm::StringRef> names = [] {
    std::vector<llvm::StringRef> result;
    for (const Fault &fault : kFaults)
      result.push_back(fault.name);
    return result;
  }();
  return names;
}

llvm::Error plantFault(llvm::StringRef name, StagedModel &model) {
  const Fault *fault =
      llvm::find_if(kFaults, [&](const Fault &candidate) { return candidate.name == name; });
  if (fault == std::end(kFaults))
    return makeError(ExitCode::Usage, "no planted fault is called " + name.str(),
                     "one of " + llvm::join(plantedFaults(), ", "));
  if (!fault->plant(model))
    return makeError(ExitCode::Usage,
                     fmt::format("planted fault {} ({}): the model has nothing to break that way",
                                 name.str(), fault->what.str()));
  countUses(model);
  return llvm::Error::success();
}

} // namespace pipec

#else

namespace pipec {

llvm::ArrayRef<llvm::StringRef> plantedFaults() { return {}; }

llvm::Error plantFault(llvm::StringRef name, StagedModel &) {
  return makeError(ExitCode::Usage, "no planted fault is called " + name.str(),
                   "planted faults are in builds with PIPEC_PLANTED_FAULTS only");
}

} // namespace pipec

#endif
