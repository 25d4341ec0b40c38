#include "ir/autograd/StageTape.h"

#include "ir/TorchError.h"
#include "ir/autograd/TapeMemory.h"
#include "ir/support/Check.h"
#include "ir/support/Llvm.h"
#include "ir/support/Try.h"
#include "ir/values/MapTensors.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>

#include <unordered_map>

namespace pipec {

namespace ag = torch::autograd;

namespace {

/// Tensors that are trained, told apart by identity: names of one tensor share its gradient, a
/// view of its memory is another tensor.
class TrainedTensors {
public:
  explicit TrainedTensors(llvm::ArrayRef<TapedAttribute> attributes) {
    for (bool bare : {true, false})
      for (size_t a = 0; a < attributes.size(); ++a)
        if (attributes[a].value.isTensor() == bare)
          addAll(a, attributes[a].value);
  }

  struct Place {
    size_t attribute, tensor;
  };
  const std::vector<Place> &places() const { return places_; }
  /// Nothing: not trained.
  std::optional<size_t> find(const at::Tensor &tensor) const {
    const auto found = numbers_.find(tensor.unsafeGetTensorImpl());
    return found == numbers_.end() ? std::nullopt : std::optional(found->second);
  }

private:
  void addAll(size_t attribute, const c10::IValue &value) {
    size_t tensorNumber = 0;
    forEachTensor(value, [&](const at::Tensor &tensor) {
      if (mayHaveGradient(tensor) &&
          numbers_.emplace(tensor.unsafeGetTensorImpl(), places_.size()).second)
        places_.push_back({attribute, tensorNumber});
      ++tensorNumber;
    });
  }

  std::vector<Place> places_;
  std::unordered_map<const void *, size_t> numbers_; // only looked up
};

bool isTrained(const c10::IValue &value) {
  if (value.isTensor())
    return mayHaveGradient(value.toTensor());
  bool is = false;
  forEachTensor(value, [&](const at::Tensor &tensor) { is |= mayHaveGradient(tensor); });
  return is;
}

size_t countTensors(const c10::IValue &value) {
  if (value.isTensor())
    return 1;
  size_t count = 0;
  forEachTensor(value, [&](const at::Tensor &) { ++count; });
  return count;
}

} // namespace

EnteredWeights::EnteredWeights(llvm::ArrayRef<TapedAttribute> attributes)
    : trained_(attributes.size()), entered_(attributes.size()) {
  const TrainedTensors trained(attributes);
  LeafNodes nodes;
  std::vector<at::Tensor> aliases(trained.places().size());
  for (const TrainedTensors::Place &place : trained.places())
    weights_.push_back({place.attribute, place.tensor, {}});
  auto enterUse = [&](const at::Tensor &tensor) {
    const std::optional<size_t> number =
        mayHaveGradient(tensor) ? trained.find(tensor) : std::nullopt;
    if (!number)
      return tensor;
    at::Tensor &alias = aliases[*number];
    if (!alias.defined()) {
      GradLeaf &leaf = weights_[*number].leaf;
      alias = enter(tensor, leaf, nodes);
      aliases_.emplace_back(alias, leaf.edge);
    }
    return alias;
  };
  for (size_t a = 0; a < attributes.size(); ++a) {
    const TapedAttribute &attribute = attributes[a];
    tensorsIn_.push_back(countTensors(attribute.value));
    if (!isTrained(attribute.value))
      continue;
    if (attribute.value.isTensor())
      trained_[a] = attribute.value.toTensor();
    else
      isReusable_ = false;
    for (size_t use = 0; use < attribute.uses; ++use)
      entered_[a].push_back(mapTensors(attribute.value, enterUse));
  }
}

static bool isSameView(const at::Tensor &a, const at::Tensor &b) {
  return a.has_storage() && b.has_storage() && a.is_alias_of(b) &&
         a.storage_offset() == b.storage_offset() && a.sizes() == b.sizes() &&
         a.strides() == b.strides();
}

bool EnteredWeights::fits(llvm::ArrayRef<TapedAttribute> attributes) const {
  if (!isReusable_ || attributes.size() != trained_.size())
    return false;
  for (size_t a = 0; a < attributes.size(); ++a) {
    const c10::IValue &value = attributes[a].value;
    const bool isSame = value.isTensor() && value.toTensor().is_same(trained_[a]);
    if (isTrained(value) != trained_[a].defined() || (trained_[a].defined() && !isSame) ||
        countTensors(value) != tensorsIn_[a])
      return false;
    // A tensor may have been given other memory since.
    if (trained_[a].defined() && !llvm::all_of(entered_[a], [&](const c10::IValue &alias) {
          return isSameView(alias.toTensor(), value.toTensor());
        }))
      return false;
  }
  return llvm::all_of(aliases_, [](const std::pair<at::Tensor, ag::Edge> &alias) {
    return ag::impl::gradient_edge(alias.first) == alias.second;
  });
}

/// An untrained container is passed itself, not as a copy: the stage may write into it.
void EnteredWeights::addArguments(llvm::ArrayRef<TapedAttribute> attributes,
                                  std::vector<c10::IValue> &values) const {
  for (size_t a = 0; a < attributes.size(); ++a) {
    if (isTrained(attributes[a].value))
      llvm::append_range(values, entered_[a]);
    else
      values.insert(values.end(), attributes[a].uses, attributes[a].value);
  }
}

void StageTape::GiveBack::operator()(TapeLists *lists) const { memory->giveBack(lists); }

StageTape::StageTape(std::shared_ptr<const EnteredWeights> weights,
                     std::shared_ptr<TapeMemory> memory)
    : weights_(std::move(weights)), lists_(memory->takeLists(), GiveBack{memory}) {}

llvm::Expected<StageTape> StageTape::record(std::vector<c10::IValue> inputs,
                                            llvm::ArrayRef<TapedAttribute> attributes, Run run) {
  return record(std::move(inputs), attributes, std::make_shared<const EnteredWeights>(attributes),
                run);
}

llvm::Expected<StageTape> StageTape::record(std::vector<c10::IValue> inputs,
                                            llvm::ArrayRef<TapedAttribute> attributes,
                                            std::shared_ptr<const EnteredWeights> weights, Run run,
                                            std::shared_ptr<TapeMemory> memory) {
  StageTape tape(std::move(weights), memory ? std::move(memory) : std::make_shared<TapeMemory>());
  TapeLists &lists = *tape.lists_;
  TensorDoor &door = tape.memory().door;
  std::vector<c10::IValue> &uses = tape.memory().uses;
  const auto recorded = atScopeEnd([&] {
    door.clear();
    uses.clear();
  });
  for (c10::IValue &input : inputs) {
    const size_t before = lists.leaves.size();
    input = door.enterAll(input, lists.leaves, tape.memory().nodes);
    lists.inputs.push_back(lists.leaves.size() - before);
  }
  door.beginLeaving();
  tape.weights_->addArguments(attributes, uses);
  tape.outputs_ = TRY(run(std::move(inputs), uses));
  for (c10::IValue &output : tape.outputs_) {
    const size_t before = lists.made.size();
    output = door.leaveAll(output, lists.made);
    lists.outputs.push_back(lists.made.size() - before);
  }
  return tape;
}

void StageTape::addRoots(llvm::MutableArrayRef<ValueGradients> ofOutputs,
                         llvm::MutableArrayRef<ValueGradients> later) const {
  PIPEC_ASSERT(ofOutputs.size() == lists_->outputs.size() && later.size() == lists_->inputs.size(),
               "a list of gradients per port");
  WalkRoots &roots = memory().walk.roots;
  size_t first = 0;
  for (size_t port = 0; port < later.size(); first += lists_->inputs[port++])
    for (size_t i = 0; i < later[port].size(); ++i)
      roots.add(lists_->leaves[first + i].edge, std::move(later[port][i]));
  first = 0;
  for (size_t port = 0; port < ofOutputs.size(); first += lists_->outputs[port++])
    for (size_t i = 0; i < ofOutputs[port].size(); ++i)
      roots.add(lists_->made[first + i], std::move(ofOutputs[port][i]));
}

void StageTape::addInputEdges(ag::edge_list &edges) const {
  for (const GradLeaf &leaf : lists_->leaves)
    edges.push_back(leaf.isAlias ? ag::Edge() : leaf.edge);
}

void StageTape::addWeightEdges(ag::edge_list &edges) const {
  for (const EnteredWeights::Weight &weight : weights_->weights_)
    edges.push_back(weight.leaf.edge);
}

/// Of the graph then remains what a split walk keeps.
void StageTape::forgetOutputs() {
  lists_->made.clear();
  lists_->outputs.clear();
}

std::vector<ValueGradients> StageTape::byPort(llvm::MutableArrayRef<at::Tensor> found,
                                              std::vector<ValueGradients> &&list) const {
  std::vector<ValueGradients> result = std::move(list);
  size_t next = 0;
  for (size_t port = 0; port < result.size(); ++port) {
    result[port].clear();
    for (size_t i = 0; i < lists_->inputs[port]; ++i)
      result[port].push_back(std::move(found[next++]));
  }
  return result;
}

std::vector<ValueGradients> StageTape::byAttribute(llvm::MutableArrayRef<at::Tensor> found) const {
  std::vector<ValueGradients> result = memory().takeGradients(weights_->tensorsIn_.size());
  for (size_t a = 0; a < result.size(); ++a)
    result[a].resize(weights_->tensorsIn_[a]);
  for (size_t k = 0; k < found.size(); ++k) {
    const EnteredWeights::Weight &weight = weights_->weights_[k];
    result[weight.attribute][weight.tensor] = std::move(found[k]);
  }
  return result;
}

bool StageTape::give(size_t weight, at::Tensor &gradient, WeightSink sink) const {
  return sink && sink(weights_->weights_[weight].attribute, gradient);
}

llvm::Expected<StageGradients> StageTape::backward(std::vector<ValueGradients> &&ofOutputs,
                                                   std::vector<ValueGradients> &&later,
                                                   WeightSink sink) {
  return guardTorch(ExitCode::Usage, "the backward", [&] {
    GraphWalk &walk = memory().walk;
    const auto ended = atScopeEnd([&] { walk.clear(); });
    const size_t inputs = lists_->leaves.size();
    addRoots(ofOutputs, later);
    addInputEdges(walk.wanted);
    addWeightEdges(walk.wanted);
    walk.run(/*keepGraph=*/false, [&](size_t number, at::Tensor &gradient) {
      return number >= inputs && give(number - inputs, gradient, sink);
    });
    forgetOutputs();
    lists_->split.clear();
    const llvm::MutableArrayRef<at::Tensor> found = walk.found;
    return StageGradients{byPort(found.take_front(inputs), std::move(later)),
                          byAttribute(found.drop_front(inputs))};
  });
}

const std::string &StageTape::whyWhole() const {
  SplitWalk &split = lists_->split;
  if (!std::exchange(lists_->hasSplit, true)) {
    ag::edge_list &inputs = memory().walk.wanted, &weights = memory().walkToWeights.wanted;
    const auto ended = atScopeEnd([&] {
      inputs.clear();
      weights.clear();
    });
    addInputEdges(inputs);
    addWeightEdges(weights);
    split.begin(lists_->made, inputs, weights, memory().search);
  }
  return split.whyWhole();
}

llvm::Expected<StageGradients> StageTape::inputGradients(std::vector<ValueGradients> &&ofOutputs,
                                                         std::vector<ValueGradients> &&later) {
  return guardTorch(ExitCode::Usage, "the backward to the inputs", [&] {
    const std::string &why = whyWhole(); // the first call finds the two parts
    PIPEC_ASSERT(why.empty(), "a stage that can be walked in two parts");
    GraphWalk &walk = memory().walk;
    const auto ended = atScopeEnd([&] { walk.clear(); });
    addRoots(ofOutputs, later);
    lists_->split.walkToInputs(walk);
    forgetOutputs();
    return StageGradients{byPort(walk.found, std::move(later)), {}};
  });
}

llvm::Expected<std::vector<ValueGradients>> StageTape::weightGradients(WeightSink sink) {
  return guardTorch(ExitCode::Usage, "the backward to the weights", [&] {
    GraphWalk &walk = memory().walkToWeights;
    const auto ended = atScopeEnd([&] { walk.clear(); });
    lists_->split.walkToWeights(
        walk, [&](size_t weight, at::Tensor &gradient) { return give(weight, gradient, sink); });
    std::vector<ValueGradients> sums = byAttribute(walk.found);
    lists_->split.clear();
    return sums;
  });
}

} // namespace pipec
