#include "compiler/cost/GraphEvaluator.h"

#include "compiler/DecidedTypes.h"
#include "compiler/LargeModels.h"
#include "compiler/cost/WeightStorages.h"
#include "ir/InferenceSettings.h"
#include "ir/NodeInfo.h"
#include "ir/TorchError.h"
#include "ir/graph/LstmState.h"
#include "ir/support/Try.h"
#include "ir/values/MapTensors.h"
#include "llvm/ADT/STLExtras.h"

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

#include <set>

namespace pipec {

using torch::jit::Block;
using torch::jit::Node;
using torch::jit::Value;

namespace {

bool wantsGradient(const c10::IValue &value) {
  bool any = false;
  forEachTensor(value, [&](const at::Tensor &tensor) {
    any = any || (tensor.defined() && tensor.requires_grad());
  });
  return any;
}

/// Whether no gradient comes to the operator, because all that reads its results is detach().
bool isDetached(const Node *node) {
  const auto readsDetach = [](const torch::jit::Use &use) {
    return use.user->kind() == c10::aten::detach;
  };
  return !node->outputs().empty() && llvm::all_of(node->outputs(), [&](const Value *output) {
    return llvm::all_of(output->uses(), readsDetach);
  });
}

/// LibTorch failed before it reached the inputs.
llvm::Error cannotRun(Node *node, llvm::Error error) {
  ErrorText text = describe(std::move(error));
  return failf(ExitCode::Internal, "LibTorch cannot run {} on its own: {}", describeNode(node),
               text.message);
}

} // namespace

c10::IValue privateCopy(const Attribute &attribute) {
  return attribute.written ? attribute.value.deepcopy() : attribute.value;
}

Running runningFor(const Model &model) {
  std::set<int64_t> storages; // that were counted
  int64_t bytes = 0;
  for (const Attribute &attribute : model.attributes)
    if (attribute.value.isTensor() && attribute.value.toTensor().layout() == at::kStrided &&
        storages.insert(attribute.storage).second)
      bytes += static_cast<int64_t>(attribute.value.toTensor().nbytes());
  return bytes < kLargeModelBytes ? Running::All : Running::Distinct;
}

GraphEvaluator::GraphEvaluator(Model &model, bool countsFlops, DecidedTypes *decided,
                               Running running)
    : model_(model), top_(topLevelOf(model)), decided_(decided),
      running_(running == Running::Distinct && EqualOperators::suits(top_) ? Running::Distinct
                                                                           : Running::All),
      countsFlops_(countsFlops) {
  for (size_t i = 0; i < top_.operators.size(); ++i)
    forEachOuterUse(top_.operators[i], [&](Value *value) { lastUse_[value] = i; });
}

llvm::Error GraphEvaluator::run(std::vector<c10::IValue> inputs, Observe observe, bool backward) {
  observe_ = observe;
  backward_ = backward;
  if (running_ == Running::Distinct && !backward) {
    equal_.emplace();
    llvm::Error error = runOperators(inputs);
    equal_.reset();
    if (!error)
      return error;
    llvm::consumeError(std::move(error)); // elements that are not right may be the cause
    running_ = Running::All;
  }
  return runOperators(std::move(inputs));
}

llvm::Error GraphEvaluator::runOperators(std::vector<c10::IValue> inputs) {
  values_.clear();
  needGrad_.clear();
  kept_.clear();
  pending_.clear();
  for (size_t i = 0; i < inputs.size(); ++i)
    values_[model_.graph->inputs()[i]] = std::move(inputs[i]);
  for (size_t i = 0; i < model_.attributes.size(); ++i)
    values_[model_.graph->inputs()[model_.argumentCount() + i]] = privateCopy(model_.attributes[i]);
  given_.clear();
  for (const auto &[value, held] : values_)
    forEachTensor(held, [&](const at::Tensor &tensor) {
      if (tensor.defined() && tensor.has_storage())
        given_.try_emplace(tensor.storage().unsafeGetStorageImpl(),
                           tensor.storage().getWeakStorageImpl());
    });
  for (size_t i = 0; i < model_.attributes.size(); ++i)
    if (isTrained(model_.attributes[i]))
      weights_.insert(model_.graph->inputs()[model_.argumentCount() + i]);
  InferenceSettings settings(
      /*intraOpThreads=*/1); // fast enough for an example, and the same on every machine
  for (size_t i = 0; i < top_.operators.size(); ++i)
    TRY(runOne(i));
  return llvm::Error::success();
}

llvm::Error GraphEvaluator::runOne(size_t index) {
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
  const int64_t kept = firstKept(node, used, backward),
                pending = firstPending(node, used, backward);
  EqualOperators::Known done;
  llvm::Error error =
      guardTorchVoid(ExitCode::Usage, "running " + describeNode(node) + " on the example inputs",
                     [&] { done = runOrBorrow(node, prepared); });
  if (error && runner_.preparing())
    return cannotRun(node, std::move(error));
  if (error)
    return error;
  torch::jit::Stack &stack = done.results;
  if (equal_ && equal_->needsElements(node, used, stack))
    return failf(ExitCode::Internal, "{} looks at elements", describeNode(node));
  if (equal_)
    equal_->follow(node, used);
  observe_({node, index, std::move(inputs), stack, done.work, done.ns, std::move(backward), kept,
            pending});
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

EqualOperators::Known GraphEvaluator::runOrBorrow(Node *node, PreparedNode &prepared) {
  std::optional<std::string> key;
  if (equal_) {
    torch::jit::Stack inputs;
    for (Value *input : node->inputs())
      inputs.push_back(valueOf(input));
    key = EqualOperators::keyOf(node, inputs);
  }
  if (const EqualOperators::Known *known = key ? equal_->find(*key) : nullptr) {
    equal_->borrow(node);
    if (decided_)
      decided_->visit(node);
    return *known;
  }
  EqualOperators::Known done;
  std::optional<FlopCounter> counter;
  if (countsFlops_)
    counter.emplace();
  runNode(node, prepared, done.results);
  done.ns = runner_.ns();
  if (counter)
    done.work = counter->total();
  if (key)
    equal_->keep(*key, done);
  return done;
}

/// Whether it puts weights into a list or takes them out of one: they are still weights.
bool GraphEvaluator::handsOnWeights(Node *node, const std::vector<Value *> &used) const {
  const c10::Symbol kind = node->kind();
  const bool isStructure = kind == c10::prim::ListConstruct || kind == c10::prim::ListUnpack ||
                           kind == c10::prim::TupleConstruct || kind == c10::prim::TupleUnpack ||
                           kind == c10::prim::TupleIndex || kind == c10::aten::__getitem__;
  return isStructure && llvm::any_of(used, [&](Value *value) { return weights_.count(value); }) &&
         llvm::none_of(used, [&](Value *value) { return needGrad_.count(value); });
}

/// Whether an operator made its memory: it is no constant, and no view of what the model got.
bool GraphEvaluator::isMade(Value *value) const {
  const auto known = values_.find(value);
  if (known == values_.end())
    return false;
  bool isGiven = false;
  forEachTensor(known->second, [&](const at::Tensor &tensor) {
    isGiven = isGiven || (tensor.defined() && tensor.has_storage() &&
                          given_.count(tensor.storage().unsafeGetStorageImpl()));
  });
  return !isGiven;
}

/// Whether the value exists before the node runs: it is from an earlier node, or a constant
/// outside its blocks.
bool GraphEvaluator::isKnownTo(Node *node, Value *value) const {
  if (value->node()->kind() != c10::prim::Constant)
    return values_.count(value);
  for (const Block *block = node->owningBlock(); block;
       block = block->owningNode() ? block->owningNode()->owningBlock() : nullptr)
    if (value->node()->owningBlock() == block)
      return true;
  return false;
}

PreparedNode &GraphEvaluator::preparedFor(Node *node) {
  auto [place, isNew] = prepared_.try_emplace(node);
  if (isNew)
    place->second = NodeRunner::prepare(node, usedBy(node));
  return place->second;
}

/// Outer values that the node and its blocks use, each once.
std::vector<Value *> GraphEvaluator::usedBy(Node *node) const {
  std::vector<Value *> used;
  forEachOuterUse(node, [&](Value *value) {
    if (!llvm::is_contained(used, value) && isKnownTo(node, value))
      used.push_back(value);
  });
  return used;
}

/// A branch that types decide runs operator by operator, so that types are followed into it.
void GraphEvaluator::runNode(Node *node, PreparedNode &prepared, torch::jit::Stack &stack) {
  if (node->kind() == c10::aten::lstm && valueOf(node->input(1)).isTensorList())
    checkLstmState(valueOf(node->input(0)).toTensor(), valueOf(node->input(1)).toTensorVector(),
                   valueOf(node->inputs().back()).toBool());
  const bool decides = decided_ && node->kind() == c10::prim::If && decided_->holds(node->input(0));
  if (inside_ && node->kind() == c10::prim::Loop) {
    runLoop(node, stack);
  } else if (decides || (inside_ && node->kind() == c10::prim::If)) {
    Block *taken = node->blocks()[valueOf(node->input(0)).toBool() ? 0 : 1];
    runBlock(taken);
    for (Value *output : taken->outputs())
      stack.push_back(valueOf(output));
    if (decides)
      decided_->visit(node, taken);
    dropInner(taken);
  } else {
    runner_.run(node, prepared, stack, [&](Value *value) { return valueOf(value); });
  }
  if (decided_ && !decides)
    decided_->visit(node);
}

void GraphEvaluator::runBlock(Block *block) {
  for (Node *inner : block->nodes())
    if (inner->kind() != c10::prim::Constant)
      runInner(inner);
}

void GraphEvaluator::dropInner(Block *block) {
  for (Node *inner : block->nodes())
    for (Value *output : inner->outputs())
      values_.erase(output);
}

/// Inputs: the number of iterations, whether there is a first one, and the carried values.
void GraphEvaluator::runLoop(Node *node, torch::jit::Stack &stack) {
  Block *body = node->blocks()[0];
  const int64_t iterations = valueOf(node->input(0)).toInt();
  bool goesOn = valueOf(node->input(1)).toBool();
  for (size_t k = 2; k < node->inputs().size(); ++k)
    stack.push_back(valueOf(node->input(k)));
  for (int64_t i = 0; i < iterations && goesOn; ++i) {
    values_[body->inputs()[0]] = i;
    for (size_t k = 0; k < stack.size(); ++k)
      values_[body->inputs()[k + 1]] = std::move(stack[k]);
    runBlock(body);
    goesOn = valueOf(body->outputs()[0]).toBool();
    for (size_t k = 0; k < stack.size(); ++k)
      stack[k] = valueOf(body->outputs()[k + 1]);
    dropInner(body);
  }
  for (Value *input : body->inputs())
    values_.erase(input);
}

void GraphEvaluator::runInner(Node *node) {
  torch::jit::Stack stack;
  runNode(node, preparedFor(node), stack);
  if (inside_)
    inside_(node, stack);
  for (size_t i = 0; i < node->outputs().size(); ++i)
    values_[node->output(i)] = std::move(stack[i]);
}

c10::IValue GraphEvaluator::valueOf(Value *value) {
  auto known = values_.find(value);
  return known != values_.end() ? known->second : torch::jit::toIValue(value).value();
}

/// Before the operator itself runs; it writes into copies here.
OperatorBackward GraphEvaluator::differentiate(Node *node, PreparedNode &prepared) {
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
    else
      input.isMade = isMade(value);
    wanted |= input.kind != BackwardInput::Kind::Fixed;
  }
  if (!wanted || (!prepared.writes && isDetached(node)))
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

/// The bytes of the values that are not in `counted` yet: what several operators need counts once.
static int64_t countFirst(std::unordered_set<Value *> &counted, Node *node,
                          const std::vector<Value *> &used, const std::vector<int64_t> &ofRead,
                          const std::vector<int64_t> &ofMade) {
  int64_t bytes = 0;
  auto count = [&](Value *value, int64_t held) {
    if (held > 0 && counted.insert(value).second)
      bytes += held;
  };
  for (size_t i = 0; i < ofRead.size(); ++i)
    count(used[i], ofRead[i]);
  for (size_t i = 0; i < ofMade.size(); ++i)
    count(node->output(i), ofMade[i]);
  return bytes;
}

int64_t GraphEvaluator::firstKept(Node *node, const std::vector<Value *> &used,
                                  const OperatorBackward &backward) {
  return countFirst(kept_, node, used, backward.keptOfRead, backward.keptOfMade);
}

int64_t GraphEvaluator::firstPending(Node *node, const std::vector<Value *> &used,
                                     const OperatorBackward &backward) {
  return backward.pendingGradients +
         countFirst(pending_, node, used, backward.pendingOfRead, backward.pendingOfMade);
}

} // namespace pipec
