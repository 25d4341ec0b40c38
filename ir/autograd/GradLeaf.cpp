#include "ir/autograd/GradLeaf.h"

#include "ir/values/MapTensors.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>

namespace pipec {

namespace ag = torch::autograd;

namespace {

/// LibTorch's own end, AccumulateGrad, would need a leaf tensor, which refuses in-place operators.
class Sink final : public ag::Node {
public:
  ag::variable_list apply(ag::variable_list &&) override { return {}; }
  std::string name() const override { return "pipec::Sink"; }
};

} // namespace

bool mayHaveGradient(const at::Tensor &tensor) {
  return tensor.defined() && tensor.requires_grad();
}

bool hasHooks(ag::Node &node) {
  return !node.tensor_pre_hooks().empty() || !node.retains_grad_hooks().empty() ||
         !node.pre_hooks().empty() || !node.post_hooks().empty();
}

LeafNodes::NodePtr LeafNodes::take() {
  if (free_.empty())
    return std::make_shared<Sink>();
  NodePtr node = std::move(free_.back());
  free_.pop_back();
  return node;
}

/// Its number in autograd's order of nodes stays that of its first graph. That order decides which
/// node runs next, and at this one nothing runs.
void LeafNodes::giveBack(NodePtr node) {
  if (!node || node.use_count() > 1 || hasHooks(*node))
    return;
  node->clear_input_metadata();
  free_.push_back(std::move(node));
}

at::Tensor enter(const at::Tensor &tensor, GradLeaf &leaf, LeafNodes &nodes) {
  at::Tensor entered = tensor.detach();
  ag::create_gradient_edge(entered, nodes.take());
  leaf.edge = ag::impl::gradient_edge(entered);
  return entered;
}

c10::IValue TensorDoor::enterAll(const c10::IValue &value, std::vector<GradLeaf> &leaves,
                                 LeafNodes &nodes) {
  return mapTensors(value, [&](const at::Tensor &tensor) {
    leaves.emplace_back();
    if (!mayHaveGradient(tensor))
      return tensor;
    auto [known, isNew] = entered_.try_emplace(tensor.unsafeGetTensorImpl());
    auto &[entered, leaf] = known->second;
    if (isNew) {
      kept_.push_back(tensor);
      entered = enter(tensor, leaf, nodes);
      came_.try_emplace(leaf.edge.function.get(), tensor.getIntrusivePtr());
    }
    leaves.back() = {leaf.edge, !isNew};
    return entered;
  });
}

void TensorDoor::beginLeaving() {
  entered_.clear();
  kept_.clear();
}

c10::IValue TensorDoor::leaveAll(const c10::IValue &value, std::vector<ag::Edge> &edges) {
  return mapTensors(value, [&](const at::Tensor &tensor) {
    edges.emplace_back();
    if (!mayHaveGradient(tensor))
      return tensor;
    edges.back() = ag::impl::gradient_edge(tensor);
    auto [known, isNew] = left_.try_emplace(tensor.unsafeGetTensorImpl());
    at::Tensor &left = known->second;
    if (isNew) {
      kept_.push_back(tensor);
      // A write into what entered gives it another node.
      if (const auto came = came_.find(edges.back().function.get()); came != came_.end())
        left = at::Tensor(came->second.lock());
      if (!left.defined())
        left = tensor.detach().requires_grad_();
    }
    return left;
  });
}

} // namespace pipec
