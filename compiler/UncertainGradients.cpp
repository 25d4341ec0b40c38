#include "compiler/UncertainGradients.h"

#include "ir/plan/PlanNames.h"
#include "ir/support/StringSwitch.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "passes/analysis/AliasAnalysis.h"
#include "passes/analysis/MemoryTypes.h"
#include "passes/analysis/OperatorFacts.h"

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

#include <algorithm>

namespace pipec {

namespace {

using torch::jit::Block;
using torch::jit::Node;
using torch::jit::Value;

/// What is known of a value's gradient before a run.
struct Mark {
  bool may = false;       // a trained weight leads to it
  bool uncertain = false; // and it depends on the way that a run takes

  bool add(const Mark &other) {
    const Mark before = *this;
    may = may || other.may;
    uncertain = uncertain || other.uncertain;
    return may != before.may || uncertain != before.uncertain;
  }
};

bool isInBlock(const Node &node) { return node.owningBlock()->owningNode() != nullptr; }

/// The results have no gradient, whatever the arguments have.
bool endsGradient(const Node &node) {
  return node.kind().is_aten() &&
         StringSwitch<bool>(node.kind().toUnqualString())
             .Cases({"detach", "zeros_like", "ones_like", "full_like", "empty_like"}, true)
             .Cases({"rand_like", "randn_like", "randint_like"}, true)
             .Cases({"new_zeros", "new_ones", "new_full", "new_empty"}, true)
             .Cases({"eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf", "isfinite"}, true)
             .Cases({"logical_and", "logical_or", "logical_xor", "logical_not"}, true)
             .Cases({"argmax", "argmin", "argsort", "nonzero"}, true)
             .Default(false);
}

/// A number or a string that the graph does not fix, such as an index.
bool isOfTheRun(const Value *value) {
  return !mayHoldTensor(*value->type()) && value->node()->kind() != c10::prim::Constant;
}

bool isListOrDict(const Value *value) {
  const c10::TypeKind kind = value->type()->kind();
  return (kind == c10::TypeKind::ListType || kind == c10::TypeKind::DictType) &&
         mayHoldTensor(*value->type());
}

/// Which tensor the operator takes out of a list or dict, or where it puts one, depends on an index
/// or a key of the run: l[k], d.get(name), l.insert(k, t), {name: t}.
bool choosesByIndex(const Node &node) {
  const bool takesOrPuts = node.maybeSchema() && llvm::any_of(node.inputs(), isListOrDict);
  return (takesOrPuts || node.kind() == c10::prim::DictConstruct) &&
         llvm::any_of(node.inputs(), isOfTheRun);
}

/// Of an operator that turns gradients of its tensor on: t.requires_grad_(flag),
/// torch.tensor(..., requires_grad=flag).
Mark turnedOn(const Node &node) {
  const c10::FunctionSchema *schema = node.maybeSchema();
  if (!schema)
    return {};
  const size_t described = std::min(schema->arguments().size(), node.inputs().size());
  for (size_t i = 0; i < described; ++i) {
    if (schema->arguments()[i].name() != "requires_grad")
      continue;
    const std::optional<c10::IValue> flag = torch::jit::toIValue(node.input(i));
    return {!flag || (flag->isBool() && flag->toBool()), !flag};
  }
  return {};
}

/// The memories of one stage, whose inputs are all memory of their own.
AliasAnalysis aliasesOf(const Stage &stage) {
  Model model;
  model.graph = stage.graph;
  return AliasAnalysis(model);
}

/// Walks one stage's graph.
class StageMarks {
public:
  explicit StageMarks(const Stage &stage) : aliases_(aliasesOf(stage)) {
    const size_t memories = aliases_.memories().size();
    given_.resize(memories);
    holders_.resize(memories);
    for (size_t m = 0; m < memories; ++m)
      for (size_t held : aliases_.memories()[m].holds)
        holders_[held].push_back(m);
  }

  Mark &operator[](const Value *value) { return marks_[value]; }

  void walk(const Block &block) {
    for (const Node *node : block.nodes()) {
      if (node->kind() == c10::prim::If)
        branch(*node);
      else if (node->kind() == c10::prim::Loop)
        loop(*node);
      else if (!endsGradient(*node))
        pass(*node);
    }
  }

private:
  void give(const Value *value, Mark mark) {
    if (mayHoldTensor(*value->type()) && marks_[value].add(mark))
      ++changes_;
  }

  void pass(const Node &node) {
    Mark all = turnedOn(node);
    for (const Value *input : node.inputs())
      all.add(marks_.lookup(input));
    all.uncertain |= all.may && choosesByIndex(node);
    for (const Value *output : node.outputs())
      give(output, all);
    write(node, all);
  }

  /// The gradient of a writing operator also belongs to what it writes into, a list's append among
  /// these. In a branch or loop, a run may leave the write out. Statistics of a normalisation,
  /// which no schema shows, are written without a gradient.
  void write(const Node &node, Mark mark) {
    const auto [first, last] = hiddenWrites(&node);
    if (!mark.may || first < last)
      return;
    mark.uncertain |= isInBlock(node);
    for (size_t memory : aliases_.writesOf(&node))
      giveMemory(memory, mark);
  }

  /// To all values that share the memory, views of a tensor for instance, and to what holds them.
  void giveMemory(size_t memory, Mark mark) {
    if (!given_[memory].add(mark))
      return;
    for (const Value *value : aliases_.memories()[memory].values)
      give(value, mark);
    for (size_t holder : holders_[memory])
      giveMemory(holder, mark);
  }

  void branch(const Node &node) {
    for (const Block *block : node.blocks())
      walk(*block);
    for (size_t i = 0; i < node.outputs().size(); ++i) {
      Mark all;
      for (const Block *block : node.blocks())
        all.add(marks_.lookup(block->outputs()[i]));
      all.uncertain = all.may;
      give(node.outputs()[i], all);
    }
  }

  /// A Loop's inputs are the most iterations, the first condition and the carried values. Its body
  /// has the number of the iteration and the carried values, and returns the next condition and the
  /// carried values. What an iteration writes, the next one may read.
  void loop(const Node &node) {
    const Block &body = *node.blocks()[0];
    const size_t carried = node.outputs().size();
    size_t before = 0;
    do {
      before = changes_;
      for (size_t i = 0; i < carried; ++i) {
        give(body.inputs()[i + 1], marks_.lookup(node.inputs()[i + 2]));
        give(body.inputs()[i + 1], marks_.lookup(body.outputs()[i + 1]));
      }
      walk(body);
    } while (changes_ != before);
    for (size_t i = 0; i < carried; ++i) {
      Mark all = marks_.lookup(body.inputs()[i + 1]);
      all.add(marks_.lookup(body.outputs()[i + 1]));
      all.uncertain = all.may;
      give(node.outputs()[i], all);
    }
  }

  const AliasAnalysis aliases_;
  std::vector<std::vector<size_t>> holders_;  // per memory: what may hold it
  std::vector<Mark> given_;                   // per memory: what writes gave it and its holders
  llvm::DenseMap<const Value *, Mark> marks_; // only looked up
  size_t changes_ = 0;                        // of marks
};

} // namespace

void noteUncertainGradients(const StagedModel &model, Plan &plan) {
  std::vector<Mark> sent(plan.channels.size());
  for (size_t s = 0; s < model.stages.size(); ++s) {
    const torch::jit::Graph &graph = *model.stages[s].graph;
    const StagePlan &stage = plan.stages[s];
    StageMarks marks(model.stages[s]);
    for (size_t i = 0; i < stage.inputs.size(); ++i)
      if (stage.inputs[i].kind == StageInput::Kind::Channel)
        marks[graph.inputs()[i]] = sent[stage.inputs[i].index];
    for (size_t a = 0; a < stage.attributes.size(); ++a)
      marks[graph.inputs()[stage.inputs.size() + a]].may = stage.attributes[a].requiresGrad;
    marks.walk(*graph.block());
    for (size_t i = 0; i < stage.outputs.size(); ++i)
      for (size_t channel : stage.outputs[i].channels)
        sent[channel] = marks[graph.outputs()[i]];
  }
  for (size_t c = 0; c < plan.channels.size(); ++c) {
    Channel &channel = plan.channels[c];
    if (channel.kind == Channel::Kind::Activation && channel.tensor.known && sent[c].uncertain &&
        isDifferentiable(channel.tensor.dtype))
      channel.tensor.requiresGrad = true;
  }
}

} // namespace pipec
