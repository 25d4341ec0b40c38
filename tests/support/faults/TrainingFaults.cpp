#include "tests/support/faults/TrainingFaults.h"

#include "llvm/ADT/STLExtras.h"
#include "tests/support/faults/GraphEdits.h"

#include <ATen/Functions.h>
#include <torch/csrc/jit/ir/ir.h>

namespace pipec::faults {

namespace {

using torch::jit::Graph;
using torch::jit::Node;
using torch::jit::Value;

// --- The stages' graphs
// ---------------------------------------------------------------------------

/// What the source keeps from its gradient gets one.
bool lostDetach(StagedModel &model) {
  for (const Stage &stage : model.stages)
    for (Node *node : stage.graph->nodes())
      if (node->kind() == c10::aten::detach) {
        node->output()->replaceAllUsesWith(node->input(0));
        node->destroy();
        return true;
      }
  return false;
}

using ChangeInput = void (*)(Graph &, Value *);

/// Changes a value that several stages read, in the last of them.
bool atLastReader(StagedModel &model, ChangeInput change) {
  for (const Channel &channel : model.channels)
    if (channel.kind == Channel::Kind::Activation && channel.type == "Tensor" &&
        channel.to.size() > 1) {
      const PortRef &last = channel.to.back();
      Graph &graph = *model.stages[last.stage].graph;
      Value *input = graph.inputs()[last.port];
      if (input->uses().empty())
        continue;
      torch::jit::WithInsertPoint front(graph.nodes().front());
      change(graph, input);
      return true;
    }
  return false;
}

bool droppedPartial(StagedModel &model) {
  return atLastReader(model, [](Graph &graph, Value *input) {
    Node *detach = graph.insertNode(graph.create(c10::aten::detach, {input}));
    input->replaceAllUsesAfterNodeWith(detach, detach->output());
  });
}

/// y + (y - y.detach()): the elements of y, and twice its gradient.
bool doubledPartial(StagedModel &model) {
  return atLastReader(model, [](Graph &graph, Value *input) {
    Value *one = graph.insertConstant(1);
    Node *detach = graph.insertNode(graph.create(c10::aten::detach, {input}));
    Node *nothing = graph.insertNode(graph.create(c10::aten::sub, {input, detach->output(), one}));
    Node *twice = graph.insertNode(graph.create(c10::aten::add, {input, nothing->output(), one}));
    input->replaceAllUsesAfterNodeWith(twice, twice->output());
  });
}

std::vector<Node *> readersInOrder(Value *weight) {
  std::vector<Node *> readers;
  for (const torch::jit::Use &use : weight->uses())
    readers.push_back(use.user);
  llvm::sort(readers, [](Node *a, Node *b) { return a->isBefore(b); });
  return readers;
}

/// Two operators that read one weight and do not depend on one another change places. With a third
/// reader the weight's gradient is added in another order.
bool swappedUses(StagedModel &model) {
  for (const Stage &stage : model.stages)
    for (size_t a = 0; a < stage.plan.attributes.size(); ++a) {
      if (!stage.plan.attributes[a].requiresGrad)
        continue;
      const std::vector<Node *> readers = readersInOrder(stage.graph->inputs()[inputOf(stage, a)]);
      if (readers.size() < 3)
        continue;
      Node *first = readers[0], *second = readers[1];
      if (llvm::any_of(second->inputs(), [&](Value *value) {
            return value->node()->kind() != c10::prim::Param && !value->node()->isBefore(first);
          }))
        continue;
      second->moveBefore(first);
      return true;
    }
  return false;
}

// --- The plan ------------------------------------------------------------------------------------

bool firstTied(Plan &plan, llvm::function_ref<void(TrainedParameter &)> change) {
  for (TrainedParameter &parameter : plan.training->parameters)
    if (parameter.uses.size() > 1) {
      change(parameter);
      return true;
    }
  return false;
}

bool unsummedTie(Plan &plan) {
  return firstTied(plan, [](TrainedParameter &parameter) { parameter.uses.pop_back(); });
}

bool swappedParts(Plan &plan) {
  return firstTied(plan, [](TrainedParameter &parameter) {
    std::reverse(parameter.uses.begin(), parameter.uses.end());
  });
}

bool lostParameter(Plan &plan) {
  if (plan.training->parameters.empty())
    return false;
  plan.training->parameters.pop_back();
  return true;
}

bool meanForSum(Plan &plan) {
  const bool isPair = plan.training->count.has_value();
  plan.training->count.reset();
  return isPair;
}

/// Any other result stands for the count.
bool sumForMean(Plan &plan) {
  if (plan.training->count || plan.signature.leaves.size() < 2)
    return false;
  plan.training->count = plan.training->loss == 0 ? 1 : 0;
  return true;
}

bool wrongRoot(Plan &plan) {
  for (size_t leaf = 0; leaf < plan.signature.leaves.size(); ++leaf)
    if (leaf != plan.training->loss && leaf != plan.training->count) {
      plan.training->loss = leaf;
      return true;
    }
  return false;
}

bool forgottenState(Plan &plan) {
  bool had = false;
  for (StagePlan &stage : plan.stages) {
    had = had || !stage.effects.stateWrites.empty();
    stage.effects.stateWrites.clear();
  }
  return had;
}

bool lostFlag(Plan &plan) {
  for (Channel &channel : plan.channels)
    if (channel.kind == Channel::Kind::Activation && channel.tensor.known &&
        std::exchange(channel.tensor.requiresGrad, false))
      return true;
  return false;
}

// --- The step ------------------------------------------------------------------------------------

at::Tensor evenParts(const at::Tensor &scale, size_t microBatches) {
  return at::full_like(scale, 1.0 / static_cast<double>(microBatches));
}

constexpr TrainingFault kFaults[] = {
    {"lost-detach", "a detached value has a gradient", lostDetach},
    {"dropped-partial", "one of several readers of a value gives it no gradient", droppedPartial},
    {"doubled-partial", "one of several readers of a value gives it twice its gradient",
     doubledPartial},
    {"swapped-uses", "a weight's gradient adds up in another order inside a stage", swappedUses},
    {"swapped-parts", "a shared weight's gradient adds up from the first stage to the last",
     nullptr, swappedParts},
    {"unsummed-tie", "a shared weight has no part of one of its stages", nullptr, unsummedTie},
    {"lost-parameter", "a weight is not trained", nullptr, lostParameter},
    {"mean-for-sum", "a loss that is a pair is a mean over micro-batches", nullptr, meanForSum},
    {"sum-for-mean", "gradients of micro-batches are summed, not averaged", nullptr, sumForMean},
    {"wrong-root", "the backward starts at another result", nullptr, wrongRoot},
    {"forgotten-state", "a recompute sees the state of a later micro-batch", nullptr, nullptr,
     forgottenState},
    {"lost-flag", "a channel brings no gradient back", nullptr, nullptr, lostFlag},
    {"even-parts", "micro-batches of different sizes weigh the same", nullptr, nullptr, nullptr,
     evenParts},
};

} // namespace

llvm::ArrayRef<TrainingFault> trainingFaults() { return kFaults; }

const TrainingFault *findTrainingFault(llvm::StringRef name) {
  const auto *found =
      llvm::find_if(kFaults, [&](const TrainingFault &row) { return row.name == name; });
  return found == std::end(kFaults) ? nullptr : found;
}

} // namespace pipec::faults
