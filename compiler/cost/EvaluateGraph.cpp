#include "compiler/cost/EvaluateGraph.h"

#include "compiler/DecidedTypes.h"
#include "compiler/cost/NodeRunner.h"
#include "compiler/cost/WeightStorages.h"
#include "ir/InferenceSettings.h"
#include "ir/NodeInfo.h"
#include "ir/Refusals.h"
#include "ir/TorchError.h"
#include "ir/torchfile/LstmState.h"
#include "ir/torchfile/TorchFile.h"
#include "passes/analysis/TopLevel.h"

#include <ATen/ops/ones_like.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/runtime/interpreter.h>

#include <chrono>
#include <set>
#include <unordered_map>
#include <unordered_set>

namespace pipec {

namespace {

using torch::jit::Block;
using torch::jit::Node;
using torch::jit::Value;

/// The run must not change the weights that are compiled afterwards.
c10::IValue privateCopy(const Attribute &attribute) {
  return attribute.written ? attribute.value.deepcopy() : attribute.value;
}

} // namespace

/// Not in an anonymous namespace, because GraphTimer owns one.
class GraphEvaluator {
public:
  /// `countsFlops`: which takes a few microseconds per operator.
  explicit GraphEvaluator(Model &model, bool countsFlops = true, DecidedTypes *decided = nullptr)
      : model_(model), top_(topLevelOf(model)), decided_(decided), countsFlops_(countsFlops) {
    for (size_t i = 0; i < top_.operators.size(); ++i)
      forEachOuterUse(top_.operators[i], [&](Value *value) { lastUse_[value] = i; });
    for (Value *output : model.graph->outputs())
      lastUse_.erase(output); // kept for leaves()
  }

  /// Expensive operators that `memo` knows do not run. Not for models that write attributes.
  void use(OperatorMemo *memo) { memo_ = memo; }

  /// After run().
  std::vector<c10::IValue> leaves() {
    std::vector<c10::IValue> leaves;
    for (Value *output : model_.graph->outputs().slice(0, model_.signature.leaves.size()))
      leaves.push_back(valueOf(output));
    return leaves;
  }

  /// May be called again: nodes are prepared once.
  llvm::Error run(std::vector<c10::IValue> inputs,
                  llvm::function_ref<void(const OperatorRun &)> observe, bool backward = false) {
    observe_ = observe;
    backward_ = backward;
    values_.clear();
    needGrad_.clear();
    kept_.clear();
    for (size_t i = 0; i < inputs.size(); ++i)
      values_[model_.graph->inputs()[i]] = std::move(inputs[i]);
    for (size_t i = 0; i < model_.attributes.size(); ++i)
      values_[model_.graph->inputs()[model_.argumentCount() + i]] =
          privateCopy(model_.attributes[i]);
    for (size_t i = 0; i < model_.attributes.size(); ++i)
      if (isTrained(model_.attributes[i]))
        weights_.insert(model_.graph->inputs()[model_.argumentCount() + i]);
    InferenceSettings settings(
        /*intraOpThreads=*/1); // fast enough for an example, and the same on every machine
    for (size_t i = 0; i < top_.operators.size(); ++i)
      if (llvm::Error error = runOne(i))
        return error;
    return llvm::Error::success();
  }

private:
  llvm::Error runOne(size_t index) {
    Node *node = top_.operators[index];
    PreparedNode &prepared = preparedFor(node);
    const std::vector<Value *> &used = prepared.used;
    std::vector<c10::IValue> inputs;
    for (Value *value : used)
      inputs.push_back(valueOf(value));
    OperatorBackward backward;
    const bool isWeights = backward_ && handsOnWeights(node, used);
    if (backward_ && !isWeights)
      backward = differentiate(node, prepared);
    const int64_t kept = firstKept(node, used, backward);
    std::optional<FlopCounter> counter;
    if (countsFlops_)
      counter.emplace();
    torch::jit::Stack stack;
    llvm::Error error =
        guardTorchVoid(ExitCode::Usage, "running " + describeNode(node) + " on the example inputs",
                       [&] { runNode(node, prepared, stack); });
    if (error && runner_.preparing())
      return cannotRun(node, std::move(error));
    if (error)
      return error;
    observe_({node, std::move(inputs), stack, counter ? counter->total() : Arithmetic(),
              runner_.ns(), std::move(backward), kept});
    for (size_t i = 0; i < node->outputs().size(); ++i) {
      if (isWeights && wantsGradient(stack[i]))
        weights_.insert(node->output(i));
      values_[node->output(i)] = std::move(stack[i]);
    }
    for (Value *value : used)
      if (auto last = lastUse_.find(value); last != lastUse_.end() && last->second == index)
        values_.erase(value);
    return llvm::Error::success();
  }

  /// Whether it puts weights into a list or takes them out of one: they are still weights.
  bool handsOnWeights(Node *node, const std::vector<Value *> &used) const {
    const c10::Symbol kind = node->kind();
    const bool isStructure = kind == c10::prim::ListConstruct || kind == c10::prim::ListUnpack ||
                             kind == c10::prim::TupleConstruct || kind == c10::prim::TupleUnpack ||
                             kind == c10::prim::TupleIndex || kind == c10::aten::__getitem__;
    return isStructure && llvm::any_of(used, [&](Value *value) { return weights_.count(value); }) &&
           llvm::none_of(used, [&](Value *value) { return needGrad_.count(value); });
  }

  static bool wantsGradient(const c10::IValue &value) {
    bool any = false;
    forEachTensor(value, [&](const at::Tensor &tensor) {
      any = any || (tensor.defined() && tensor.requires_grad());
    });
    return any;
  }

  /// LibTorch failed before it reached the inputs.
  static llvm::Error cannotRun(Node *node, llvm::Error error) {
    ErrorText text = describe(std::move(error));
    return failf(ExitCode::Internal, "LibTorch cannot run {} on its own: {}", describeNode(node),
                 text.message);
  }

  /// Whether the value exists before the node runs: it is from an earlier node, or a constant
  /// outside its blocks.
  bool isKnownTo(Node *node, Value *value) const {
    if (value->node()->kind() != c10::prim::Constant)
      return values_.count(value);
    for (const Block *block = node->owningBlock(); block;
         block = block->owningNode() ? block->owningNode()->owningBlock() : nullptr)
      if (value->node()->owningBlock() == block)
        return true;
    return false;
  }

  PreparedNode &preparedFor(Node *node) {
    auto [place, isNew] = prepared_.try_emplace(node);
    if (isNew)
      place->second = NodeRunner::prepare(node, usedBy(node));
    return place->second;
  }

  /// Outer values that the node and its blocks use, each once.
  std::vector<Value *> usedBy(Node *node) const {
    std::vector<Value *> used;
    forEachOuterUse(node, [&](Value *value) {
      if (!llvm::is_contained(used, value) && isKnownTo(node, value))
        used.push_back(value);
    });
    return used;
  }

  /// A branch that types decide runs operator by operator, so that types are followed into it.
  void runNode(Node *node, PreparedNode &prepared, torch::jit::Stack &stack) {
    if (node->kind() == c10::aten::lstm && valueOf(node->input(1)).isTensorList())
      checkLstmState(valueOf(node->input(0)).toTensor(), valueOf(node->input(1)).toTensorVector(),
                     valueOf(node->inputs().back()).toBool());
    if (!decided_ || node->kind() != c10::prim::If || !decided_->holds(node->input(0))) {
      runOrRecall(node, prepared, stack);
      if (decided_)
        decided_->visit(node);
      return;
    }
    Block *taken = node->blocks()[valueOf(node->input(0)).toBool() ? 0 : 1];
    for (Node *inner : taken->nodes())
      if (inner->kind() != c10::prim::Constant)
        runInner(inner);
    for (Value *output : taken->outputs())
      stack.push_back(valueOf(output));
    decided_->visit(node, taken);
    for (Node *inner : taken->nodes())
      for (Value *output : inner->outputs())
        values_.erase(output);
  }

  void runOrRecall(Node *node, PreparedNode &prepared, torch::jit::Stack &stack) {
    auto run = [&] {
      runner_.run(node, prepared, stack, [&](Value *value) { return valueOf(value); });
    };
    if (!memo_ || prepared.writes || prepared.writesState || !OperatorMemo::suits(node))
      return run();
    std::vector<c10::IValue> inputs;
    for (Value *input : node->inputs())
      inputs.push_back(valueOf(input));
    if (std::optional<torch::jit::Stack> known = memo_->recall(node, inputs)) {
      stack = std::move(*known);
      return;
    }
    run();
    memo_->keep(node, std::move(inputs), stack, runner_.ns());
  }

  void runInner(Node *node) {
    torch::jit::Stack stack;
    runNode(node, preparedFor(node), stack);
    for (size_t i = 0; i < node->outputs().size(); ++i)
      values_[node->output(i)] = std::move(stack[i]);
  }

  c10::IValue valueOf(Value *value) {
    auto known = values_.find(value);
    return known != values_.end() ? known->second : torch::jit::toIValue(value).value();
  }

  /// Before the operator itself runs; it writes into copies here.
  OperatorBackward differentiate(Node *node, PreparedNode &prepared) {
    std::vector<BackwardInput> inputs;
    std::vector<std::optional<c10::IValue>> before; // absent: constants
    bool wanted = false;
    for (Value *value : prepared.used) {
      auto known = values_.find(value);
      before.push_back(known == values_.end() ? std::nullopt : std::optional(known->second));
      BackwardInput &input = inputs.emplace_back();
      input.value = valueOf(value);
      if (weights_.count(value))
        input.kind = BackwardInput::Kind::Weight;
      else if (needGrad_.count(value))
        input.kind = BackwardInput::Kind::Activation;
      wanted |= input.kind != BackwardInput::Kind::Fixed;
    }
    if (!wanted)
      return {};
    auto restore = [&] {
      for (size_t i = 0; i < before.size(); ++i)
        if (before[i])
          values_[prepared.used[i]] = *before[i];
        else
          values_.erase(prepared.used[i]);
    };
    OperatorBackward result = timeBackward(
        inputs, prepared.writes, countsFlops_, [&](const std::vector<c10::IValue> &values) {
          for (size_t i = 0; i < values.size(); ++i) {
            const bool isCopied = inputs[i].kind == BackwardInput::Kind::Fixed &&
                                  (prepared.writes || prepared.writesState);
            values_[prepared.used[i]] = isCopied ? values[i].deepcopy() : values[i];
          }
          torch::jit::Stack stack;
          runner_.run(node, prepared, stack, [&](Value *value) { return valueOf(value); });
          restore(); // after that, only the graph still holds values
          return stack;
        });
    restore(); // if it threw
    for (size_t i = 0; i < result.hasGradient.size(); ++i)
      if (result.hasGradient[i])
        needGrad_.insert(node->output(i));
    return result;
  }

  /// A value that the backwards of several operators need counts once.
  int64_t firstKept(Node *node, const std::vector<Value *> &used,
                    const OperatorBackward &backward) {
    int64_t bytes = 0;
    auto count = [&](Value *value, int64_t kept) {
      if (kept > 0 && kept_.insert(value).second)
        bytes += kept;
    };
    for (size_t i = 0; i < backward.keptOfRead.size(); ++i)
      count(used[i], backward.keptOfRead[i]);
    for (size_t i = 0; i < backward.keptOfMade.size(); ++i)
      count(node->output(i), backward.keptOfMade[i]);
    return bytes;
  }

  Model &model_;
  TopLevel top_;
  llvm::function_ref<void(const OperatorRun &)> observe_ = nullptr;
  DecidedTypes *decided_;
  OperatorMemo *memo_ = nullptr;
  bool countsFlops_;
  bool backward_ = false;
  NodeRunner runner_;
  // Looked up by pointer only.
  std::unordered_map<Value *, c10::IValue> values_;
  std::unordered_map<Value *, size_t> lastUse_;
  std::unordered_map<Node *, PreparedNode> prepared_;
  std::unordered_set<Value *> weights_;  // whose gradients are needed
  std::unordered_set<Value *> needGrad_; // made from those
  std::unordered_set<Value *> kept_;     // for the backward of an earlier operator
};

namespace {

bool isNested(const c10::IValue &content) {
  return content.isTensor() && content.toTensor().defined() && content.toTensor().is_nested();
}

/// A nested tensor has no sizes that a type could hold.
void annotate(Value *value, const c10::IValue &content) {
  if (value->type()->kind() != c10::TypeKind::TensorType || !content.isTensor() ||
      !content.toTensor().defined() || isNested(content))
    return;
  // A gradient flag belongs to a run, not to the model.
  value->setType(c10::TensorType::create(content.toTensor())->withRequiresGrad(std::nullopt));
}

void eraseFrom(at::ArrayRef<Value *> values) {
  for (Value *value : values)
    if (value->type()->kind() == c10::TypeKind::TensorType)
      value->setType(c10::TensorType::get());
}

void eraseFrom(Block &block) {
  eraseFrom(block.inputs());
  for (Node *node : block.nodes()) {
    if (node->kind() != c10::prim::Constant)
      eraseFrom(node->outputs());
    for (Block *inner : node->blocks())
      eraseFrom(*inner);
  }
}

} // namespace

llvm::Error evaluateGraph(Model &model, std::vector<c10::IValue> inputs,
                          llvm::function_ref<void(const OperatorRun &)> observe, bool backward) {
  return GraphEvaluator(model).run(std::move(inputs), observe, backward);
}

struct GraphTimer::Impl {
  explicit Impl(Model &given) : model(given), evaluator(given, /*countsFlops=*/false) {}

  torch::jit::Code &prepared() {
    if (!code) {
      std::shared_ptr<torch::jit::Graph> quiet = model.graph->copy();
      removePrints(quiet->block());
      code.emplace(quiet, "pipec_model");
    }
    return *code;
  }

  Model &model;
  GraphEvaluator evaluator;
  std::optional<torch::jit::Code> code;
};

GraphTimer::GraphTimer(Model &model) : impl_(std::make_unique<Impl>(model)) {}
GraphTimer::~GraphTimer() = default;

llvm::Expected<std::vector<int64_t>>
GraphTimer::operators(std::vector<c10::IValue> inputs,
                      llvm::function_ref<void(const OperatorRun &)> observe, bool backward) {
  std::vector<int64_t> times;
  auto note = [&](const OperatorRun &run) {
    times.push_back(run.ns);
    if (observe)
      observe(run);
  };
  if (llvm::Error error = impl_->evaluator.run(std::move(inputs), note, backward))
    return std::move(error);
  return times;
}

llvm::Error GraphTimer::prepare() {
  return guardTorchVoid(ExitCode::Usage, "preparing the model", [&] { impl_->prepared(); });
}

llvm::Expected<int64_t> GraphTimer::whole(std::vector<c10::IValue> inputs) {
  InferenceSettings settings(/*intraOpThreads=*/1);
  torch::jit::Stack stack = std::move(inputs);
  for (const Attribute &attribute : impl_->model.attributes)
    stack.push_back(privateCopy(attribute));
  return guardTorch(ExitCode::Usage, "running the model on the example inputs", [&] {
    torch::jit::Code &code = impl_->prepared();
    const auto start = std::chrono::steady_clock::now();
    torch::jit::InterpreterState(code).run(stack);
    return static_cast<int64_t>(
        std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count());
  });
}

llvm::Expected<int64_t> GraphTimer::wholeBackward(std::vector<c10::IValue> inputs) {
  InferenceSettings settings(/*intraOpThreads=*/1);
  torch::jit::Stack stack = std::move(inputs);
  for (const Attribute &attribute : impl_->model.attributes)
    stack.push_back(withLeaves(attribute, privateCopy(attribute)));
  return guardTorch(ExitCode::Usage, "running the model's backward on the example inputs", [&] {
    c10::AutoGradMode withGradients(true);
    torch::jit::InterpreterState(impl_->prepared()).run(stack);
    std::vector<at::Tensor> roots, gradients;
    for (const c10::IValue &value : stack)
      forEachTensor(value, [&](const at::Tensor &tensor) {
        if (!tensor.defined() || !tensor.requires_grad())
          return;
        roots.push_back(tensor);
        gradients.push_back(at::ones_like(tensor));
      });
    if (roots.empty())
      return int64_t(0);
    const auto start = std::chrono::steady_clock::now();
    torch::autograd::backward(roots, gradients);
    return static_cast<int64_t>(
        std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count());
  });
}

OperatorGraph operatorGraph(const Model &model) {
  const TopLevel top = topLevelOf(model);
  std::unordered_map<Value *, uint32_t> makers, attributes; // looked up by pointer only
  for (size_t i = 0; i < model.attributes.size(); ++i)
    attributes[model.graph->inputs()[model.argumentCount() + i]] = static_cast<uint32_t>(i);
  // Lists made of attributes alone, as those of recurrent layers: the weights belong to the list's
  // reader.
  std::unordered_map<Value *, std::vector<uint32_t>> lists; // looked up by pointer only
  OperatorGraph graph;
  for (size_t i = 0; i < top.operators.size(); ++i) {
    Node *node = top.operators[i];
    const auto self = static_cast<uint32_t>(i);
    if (node->kind() == c10::prim::ListConstruct && !node->inputs().empty() &&
        llvm::all_of(node->inputs(), [&](Value *input) { return attributes.count(input) > 0; }))
      for (Value *input : node->inputs())
        lists[node->output()].push_back(attributes[input]);
    graph.operators.push_back({node->kind().toQualString(), modulePathOf(node)});
    std::set<uint32_t> read, weights;
    forEachOuterUse(node, [&](Value *value) {
      if (auto maker = makers.find(value); maker != makers.end())
        read.insert(maker->second);
      if (auto attribute = attributes.find(value); attribute != attributes.end())
        weights.insert(attribute->second);
      if (auto list = lists.find(value); list != lists.end())
        weights.insert(list->second.begin(), list->second.end());
    });
    if (!node->outputs().empty() && lists.count(node->outputs()[0]))
      weights.clear();
    for (uint32_t maker : read)
      graph.reads.emplace_back(maker, self);
    for (uint32_t weight : weights)
      graph.weights.emplace_back(weight, self);
    for (Value *output : node->outputs())
      makers[output] = self;
  }
  return graph;
}

llvm::Expected<std::vector<c10::IValue>> inferTypes(Model &model, std::vector<c10::IValue> inputs,
                                                    OperatorMemo *memo) {
  DecidedTypes decided(model);
  auto annotateInput = [&](size_t index, const c10::IValue &content) {
    if (decided.holds(model.graph->inputs()[index]))
      annotate(model.graph->inputs()[index], content);
  };
  for (size_t i = 0; i < inputs.size(); ++i)
    annotateInput(i, inputs[i]);
  for (size_t i = 0; i < model.attributes.size(); ++i)
    annotateInput(model.argumentCount() + i, model.attributes[i].value);
  std::string nested; // the operator whose result is a nested tensor
  auto observe = [&](const OperatorRun &run) {
    for (size_t i = 0; i < run.outputs.size(); ++i) {
      if (isNested(run.outputs[i]) &&
          llvm::is_contained(model.graph->outputs(), run.node->output(i)))
        nested = describeNode(run.node);
      if (decided.holds(run.node->output(i)))
        annotate(run.node->output(i), run.outputs[i]);
    }
  };
  GraphEvaluator evaluator(model, /*countsFlops=*/true, &decided);
  if (llvm::none_of(model.attributes, [](const Attribute &one) { return one.written; }))
    evaluator.use(memo);
  if (llvm::Error error = evaluator.run(std::move(inputs), observe))
    return std::move(error);
  if (!nested.empty())
    return refuseWith(Refusal::ResultWithoutForm, nested, "a nested tensor",
                      "one that has no sizes");
  return evaluator.leaves();
}

Model withOwnGraph(const Model &model) {
  Model copy = model;
  copy.graph = model.graph->copy();
  return copy;
}

void eraseTypes(Model &model) { eraseFrom(*model.graph->block()); }

} // namespace pipec
