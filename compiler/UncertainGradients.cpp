#include "compiler/UncertainGradients.h"

#include "ir/plan/PlanNames.h"
#include "llvm/ADT/DenseMap.h"
#include "passes/analysis/MemoryTypes.h"

#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

namespace {

using torch::jit::Block;
using torch::jit::Node;
using torch::jit::Value;

/// What is known of a value's gradient before a run.
struct Mark {
  bool may = false;       // a trained weight leads to it
  bool uncertain = false; // and it depends on the way through branches

  bool add(const Mark &other) {
    const Mark before = *this;
    may = may || other.may;
    uncertain = uncertain || other.uncertain;
    return may != before.may || uncertain != before.uncertain;
  }
};

/// Walks one stage's graph.
class StageMarks {
public:
  Mark &operator[](const Value *value) { return marks_[value]; }

  void walk(const Block &block) {
    for (const Node *node : block.nodes()) {
      if (node->kind() == c10::prim::If)
        branch(*node);
      else if (node->kind() == c10::prim::Loop)
        loop(*node);
      else if (node->kind() != c10::aten::detach)
        pass(*node);
    }
  }

private:
  void give(const Value *value, Mark mark) {
    if (mayHoldTensor(*value->type()))
      marks_[value].add(mark);
  }

  /// The gradient of a writing operator also belongs to the value that it writes into.
  void pass(const Node &node) {
    Mark all;
    for (const Value *input : node.inputs())
      all.add(marks_.lookup(input));
    for (const Value *output : node.outputs())
      give(output, all);
    const c10::FunctionSchema *schema = node.maybeSchema();
    if (schema && schema->is_mutable())
      give(node.input(0), all);
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
  /// carried values.
  void loop(const Node &node) {
    const Block &body = *node.blocks()[0];
    const size_t carried = node.outputs().size();
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t i = 0; i < carried; ++i) {
        Mark all = marks_.lookup(node.inputs()[i + 2]);
        all.add(marks_.lookup(body.outputs()[i + 1]));
        changed |= marks_[body.inputs()[i + 1]].add(all);
      }
      walk(body);
    }
    for (size_t i = 0; i < carried; ++i) {
      Mark all = marks_.lookup(body.inputs()[i + 1]);
      all.add(marks_.lookup(body.outputs()[i + 1]));
      all.uncertain = all.may;
      give(node.outputs()[i], all);
    }
  }

  llvm::DenseMap<const Value *, Mark> marks_; // only looked up
};

} // namespace

void noteUncertainGradients(const StagedModel &model, Plan &plan) {
  std::vector<Mark> sent(plan.channels.size());
  for (size_t s = 0; s < model.stages.size(); ++s) {
    const torch::jit::Graph &graph = *model.stages[s].graph;
    const StagePlan &stage = plan.stages[s];
    StageMarks marks;
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
