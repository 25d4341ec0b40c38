#include "ir/autograd/SplitWalk.h"

#include "llvm/ADT/StringRef.h"

#include <ATen/core/Tensor.h>

#include <unordered_set>

namespace pipec {

namespace ag = torch::autograd;

SplitWalk::SplitWalk(const ag::edge_list &outputs, const ag::edge_list &inputs,
                     const ag::edge_list &weights)
    : inputs_(inputs), weights_(weights) {
  findAll(outputs);
  findMiddles(outputs);
}

void SplitWalk::findAll(const ag::edge_list &outputs) {
  std::unordered_set<Node *> seen;
  for (const ag::Edge &edge : outputs)
    if (edge.function && seen.insert(edge.function.get()).second)
      all_.push_back(edge.function);
  for (size_t i = 0; i < all_.size(); ++i) {
    const NodePtr node = all_[i]; // all_ grows
    for (const ag::Edge &next : node->next_edges()) {
      if (!next.function)
        continue;
      users_[next.function.get()].push_back(node);
      if (seen.insert(next.function.get()).second)
        all_.push_back(next.function);
    }
  }
}

void SplitWalk::findMiddles(const ag::edge_list &outputs) {
  std::unordered_set<Node *> onWay; // from an input to an output
  std::vector<Node *> todo;
  for (const ag::Edge &input : inputs_)
    if (input.function)
      todo.push_back(input.function.get());
  while (!todo.empty()) {
    Node *node = todo.back();
    todo.pop_back();
    if (onWay.insert(node).second)
      for (const NodePtr &user : users_[node])
        todo.push_back(user.get());
  }
  for (const ag::Edge &edge : outputs) // reached by a weight without any input
    if (edge.function)
      onWay.insert(edge.function.get());

  for (size_t k = 0; k < weights_.size(); ++k) {
    if (!weights_[k].function)
      continue;
    std::unordered_set<Node *> seen;
    std::vector<Node *> way = {weights_[k].function.get()};
    size_t middles = 0;
    if (onWay.count(way.front())) { // the weight is an output
      whyWhole_ = "a weight is a result of the stage";
      return;
    }
    while (!way.empty()) {
      Node *node = way.back();
      way.pop_back();
      behind_.emplace(node, k);
      for (const NodePtr &user : users_[node]) {
        if (!seen.insert(user.get()).second)
          continue;
        if (!onWay.count(user.get())) {
          way.push_back(user.get());
          continue;
        }
        ++middles;
        if (llvm::StringRef(user->name()).contains("NativeGroupNorm"))
          whyWhole_ =
              "LibTorch's group norm crashes where only gradients of its weights are wanted";
        auto [found, isNew] = middleOf_.emplace(user.get(), middles_.size());
        if (isNew)
          middles_.push_back({user, {}, {}});
        middles_[found->second].weights.push_back(k);
      }
    }
    // The walk from the first middle would free what the second needs, and both give parts of one
    // gradient in an order of their own.
    if (middles > 1)
      whyWhole_ = "one use of a weight feeds several operators";
  }
}

std::vector<at::Tensor> SplitWalk::walkToInputs(StartNode::Roots roots) {
  ag::edge_list wanted = inputs_;
  for (const Middle &middle : middles_)
    for (uint32_t i = 0; i < middle.node->num_inputs(); ++i)
      wanted.emplace_back(middle.node, i);
  std::vector<at::Tensor> found = StartNode::walk(std::move(roots), wanted, /*keepGraph=*/true);
  auto next = found.begin() + static_cast<std::ptrdiff_t>(inputs_.size());
  for (Middle &middle : middles_)
    for (uint32_t i = 0; i < middle.node->num_inputs(); ++i)
      middle.gradients.push_back(std::move(*next++));
  found.resize(inputs_.size());
  releaseOthers();
  return found;
}

/// The middles keep the whole graph alive; what their own walks do not read goes.
void SplitWalk::releaseOthers() {
  for (const NodePtr &node : all_)
    if (!middleOf_.count(node.get()) && !behind_.count(node.get()))
      node->release_variables();
}

std::vector<at::Tensor> SplitWalk::walkToWeights() {
  std::vector<at::Tensor> found(weights_.size());
  for (Middle &middle : middles_) {
    StartNode::Roots roots;
    for (uint32_t i = 0; i < middle.gradients.size(); ++i)
      roots.add({middle.node, i}, std::move(middle.gradients[i]));
    ag::edge_list wanted;
    for (size_t k : middle.weights)
      wanted.push_back(weights_[k]);
    std::vector<at::Tensor> of = StartNode::walk(std::move(roots), wanted, /*keepGraph=*/false);
    for (size_t i = 0; i < of.size(); ++i)
      found[middle.weights[i]] = std::move(of[i]);
  }
  middles_.clear();
  all_.clear();
  users_.clear();
  return found;
}

} // namespace pipec
