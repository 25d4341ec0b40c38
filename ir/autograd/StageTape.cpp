#include "ir/autograd/StageTape.h"

#include "ir/TorchError.h"
#include "ir/autograd/GradSum.h"
#include "ir/support/Check.h"
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

EnteredWeights::EnteredWeights(llvm::ArrayRef<TapedAttribute> attributes, WeightUses uses)
    : kind_(uses), trained_(attributes.size()), entered_(attributes.size()) {
  const TrainedTensors trained(attributes);
  for (const TrainedTensors::Place &place : trained.places())
    weights_.push_back({place.attribute, place.tensor, {}});
  std::vector<at::Tensor> shared(weights_.size()); // Together
  auto enterUse = [&](const at::Tensor &tensor) {
    const std::optional<size_t> number =
        mayHaveGradient(tensor) ? trained.find(tensor) : std::nullopt;
    if (!number)
      return tensor;
    if (uses == WeightUses::Together && shared[*number].defined())
      return shared[*number];
    GradLeaf &leaf = weights_[*number].uses.emplace_back();
    shared[*number] = enter(tensor, leaf);
    aliases_.emplace_back(shared[*number], leaf.edge);
    return shared[*number];
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

bool EnteredWeights::fits(llvm::ArrayRef<TapedAttribute> attributes, WeightUses uses) const {
  if (!isReusable_ || uses != kind_ || attributes.size() != trained_.size())
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
std::vector<c10::IValue>
EnteredWeights::arguments(llvm::ArrayRef<TapedAttribute> attributes) const {
  std::vector<c10::IValue> values;
  size_t count = 0;
  for (const TapedAttribute &attribute : attributes)
    count += attribute.uses;
  values.reserve(count);
  for (size_t a = 0; a < attributes.size(); ++a) {
    if (isTrained(attributes[a].value))
      llvm::append_range(values, entered_[a]);
    else
      values.insert(values.end(), attributes[a].uses, attributes[a].value);
  }
  return values;
}

llvm::Expected<StageTape> StageTape::record(const std::vector<c10::IValue> &inputs,
                                            llvm::ArrayRef<TapedAttribute> attributes,
                                            WeightUses uses, Run run) {
  return record(inputs, attributes, std::make_shared<const EnteredWeights>(attributes, uses), run);
}

llvm::Expected<StageTape> StageTape::record(const std::vector<c10::IValue> &inputs,
                                            llvm::ArrayRef<TapedAttribute> attributes,
                                            std::shared_ptr<const EnteredWeights> weights,
                                            Run run) {
  StageTape tape;
  std::vector<c10::IValue> arguments;
  TensorDoor entrance, exit;
  arguments.reserve(inputs.size());
  tape.inputs_.reserve(inputs.size());
  for (const c10::IValue &input : inputs)
    arguments.push_back(entrance.enterAll(input, tape.inputs_.emplace_back()));
  tape.weights_ = std::move(weights);
  std::vector<c10::IValue> outputs =
      TRY(run(std::move(arguments), tape.weights_->arguments(attributes)));
  tape.outputs_.reserve(outputs.size());
  tape.made_.reserve(outputs.size());
  for (const c10::IValue &output : outputs)
    tape.outputs_.push_back(exit.leaveAll(output, tape.made_.emplace_back()));
  return tape;
}

StartNode::Roots StageTape::rootsOf(std::vector<ValueGradients> ofOutputs,
                                    std::vector<ValueGradients> later) const {
  PIPEC_ASSERT(ofOutputs.size() == made_.size() && later.size() == inputs_.size(),
               "a list of gradients per port");
  StartNode::Roots roots;
  for (size_t port = 0; port < later.size(); ++port)
    for (size_t i = 0; i < later[port].size(); ++i)
      roots.add(inputs_[port][i].edge, std::move(later[port][i]));
  for (size_t port = 0; port < ofOutputs.size(); ++port)
    for (size_t i = 0; i < ofOutputs[port].size(); ++i)
      roots.add(made_[port][i], std::move(ofOutputs[port][i]));
  return roots;
}

ag::edge_list StageTape::inputEdges() const {
  ag::edge_list edges;
  for (const std::vector<GradLeaf> &port : inputs_)
    for (const GradLeaf &leaf : port)
      edges.push_back(leaf.isAlias ? ag::Edge() : leaf.edge);
  return edges;
}

ag::edge_list StageTape::weightEdges() const {
  ag::edge_list edges;
  for (const EnteredWeights::Weight &weight : weights_->weights_)
    for (const GradLeaf &leaf : weight.uses)
      edges.push_back(leaf.edge);
  return edges;
}

std::vector<ValueGradients> StageTape::byPort(llvm::ArrayRef<at::Tensor> found) const {
  std::vector<ValueGradients> result;
  result.reserve(inputs_.size());
  for (const std::vector<GradLeaf> &port : inputs_) {
    result.emplace_back(found.begin(), found.begin() + port.size());
    found = found.drop_front(port.size());
  }
  return result;
}

std::vector<ValueGradients> StageTape::byAttribute(llvm::ArrayRef<at::Tensor> found) const {
  std::vector<ValueGradients> result;
  result.reserve(weights_->tensorsIn_.size());
  for (size_t count : weights_->tensorsIn_)
    result.emplace_back(count);
  for (const EnteredWeights::Weight &weight : weights_->weights_) {
    at::Tensor &sum = result[weight.attribute][weight.tensor];
    for (size_t use = weight.uses.size(); use-- > 0;)
      addGradient(sum, found[use]);
    found = found.drop_front(weight.uses.size());
  }
  return result;
}

llvm::Expected<StageGradients> StageTape::backward(std::vector<ValueGradients> ofOutputs,
                                                   std::vector<ValueGradients> later) {
  return guardTorch(ExitCode::Usage, "the backward", [&] {
    ag::edge_list wanted = inputEdges();
    const size_t inputs = wanted.size();
    llvm::append_range(wanted, weightEdges());
    const std::vector<at::Tensor> found = StartNode::walk(
        rootsOf(std::move(ofOutputs), std::move(later)), wanted, /*keepGraph=*/false);
    made_.clear(); // the graph goes
    split_.reset();
    return StageGradients{byPort(llvm::ArrayRef<at::Tensor>(found).take_front(inputs)),
                          byAttribute(llvm::ArrayRef<at::Tensor>(found).drop_front(inputs))};
  });
}

std::string StageTape::whyWhole() const {
  if (!split_) {
    ag::edge_list outputs;
    for (const std::vector<ag::Edge> &port : made_)
      llvm::append_range(outputs, port);
    split_.emplace(outputs, inputEdges(), weightEdges());
  }
  // In a loop the engine adds the uses of one iteration before those of the next.
  size_t edge = 0;
  for (const EnteredWeights::Weight &weight : weights_->weights_)
    for (size_t use = 0; use < weight.uses.size(); ++use, ++edge)
      if (weight.uses.size() > 1 && split_->readersOf(edge) > 1)
        return "one use of a weight feeds several operators";
  return split_->whyWhole();
}

llvm::Expected<StageGradients> StageTape::inputGradients(std::vector<ValueGradients> ofOutputs,
                                                         std::vector<ValueGradients> later) {
  return guardTorch(ExitCode::Usage, "the backward to the inputs", [&] {
    PIPEC_ASSERT(whyWhole().empty(), "a stage that can be walked in two parts");
    StageGradients result;
    result.inputs = byPort(split_->walkToInputs(rootsOf(std::move(ofOutputs), std::move(later))));
    made_.clear();
    return result;
  });
}

llvm::Expected<std::vector<ValueGradients>> StageTape::weightGradients() {
  return guardTorch(ExitCode::Usage, "the backward to the weights", [&] {
    std::vector<ValueGradients> sums = byAttribute(split_->walkToWeights());
    split_.reset();
    return sums;
  });
}

} // namespace pipec
