#include "ir/autograd/SplitWalk.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"

#include <fmt/format.h>

#include <ATen/core/Tensor.h>
#include <c10/util/Type.h>
#include <torch/csrc/autograd/functions/tensor.h>

#include <numeric>
#include <typeinfo>
#include <utility>

namespace pipec {

namespace ag = torch::autograd;

/// The class of a node that LibTorch does not define; empty for LibTorch's own. Such a node may
/// compute gradients that are not requested, and count or write in its backward, so it must run
/// once.
static std::string foreignClass(const ag::Node &node) {
  constexpr llvm::StringLiteral kOwn = "torch::autograd::", kCustom = "CppNode<";
  const std::string name = c10::demangle(typeid(node).name());
  llvm::StringRef rest = name;
  const bool isOwn = rest.consume_front(kOwn);
  if (!rest.consume_front(kCustom))
    return isOwn ? "" : name;
  rest.consume_back(">");
  return rest.rtrim().str();
}

SplitWalk::Graph::Graph(const ag::edge_list &outputs) {
  auto add = [this](const ag::Edge &edge) {
    const auto [found, isNew] = numbers.try_emplace(edge.function.get(), nodes.size());
    if (isNew)
      nodes.push_back(edge.function);
    return found->second;
  };
  for (const ag::Edge &edge : outputs)
    if (edge.function)
      add(edge);
  std::vector<std::pair<size_t, size_t>> uses; // used node, its user
  for (size_t i = 0; i < nodes.size(); ++i) {
    Node *const node = nodes[i].get(); // nodes grows
    for (const ag::Edge &next : node->next_edges())
      if (next.function)
        uses.emplace_back(add(next), i);
  }
  firstUser.assign(nodes.size() + 1, 0);
  for (const auto &[used, user] : uses)
    ++firstUser[used + 1];
  std::partial_sum(firstUser.begin(), firstUser.end(), firstUser.begin());
  users.resize(uses.size());
  std::vector<size_t> next(firstUser.begin(), firstUser.end() - 1);
  for (const auto &[used, user] : uses)
    users[next[used]++] = user;
}

std::optional<size_t> SplitWalk::Graph::find(const ag::Edge &edge) const {
  const auto found = edge.function ? numbers.find(edge.function.get()) : numbers.end();
  return found == numbers.end() ? std::nullopt : std::optional(found->second);
}

SplitWalk::SplitWalk(const ag::edge_list &outputs, const ag::edge_list &inputs,
                     const ag::edge_list &weights)
    : inputs_(inputs), weights_(weights) {
  const Graph graph(outputs);
  std::vector<bool> onWay(graph.nodes.size());
  std::vector<size_t> todo;
  for (const ag::Edge &input : inputs_)
    if (const std::optional<size_t> node = graph.find(input))
      todo.push_back(*node);
  // An output that only weights reach is a middle, too, and so is the way from it to other outputs.
  for (const ag::Edge &edge : outputs)
    if (const std::optional<size_t> node = graph.find(edge))
      todo.push_back(*node);
  while (!todo.empty()) {
    const size_t node = todo.back();
    todo.pop_back();
    if (onWay[node])
      continue;
    onWay[node] = true;
    llvm::append_range(todo, graph.usersOf(node));
  }
  findMiddles(graph, onWay);
}

void SplitWalk::findMiddles(const Graph &graph, const std::vector<bool> &onWay) {
  constexpr size_t kNever = ~size_t(0);
  readers_.assign(weights_.size(), 0);
  std::vector<bool> behind(graph.nodes.size()), isMiddle(graph.nodes.size());
  std::vector<size_t> seenBy(graph.nodes.size(), kNever); // the last weight that came through
  for (size_t k = 0; k < weights_.size(); ++k) {
    const std::optional<size_t> start = graph.find(weights_[k]);
    if (!start)
      continue;
    readers_[k] = graph.usersOf(*start).size();
    if (onWay[*start]) { // the weight is an output
      whyWhole_ = "a weight is a result of the stage";
      return;
    }
    std::vector<size_t> way = {*start};
    size_t middles = 0;
    while (!way.empty()) {
      const size_t node = way.back();
      way.pop_back();
      behind[node] = true;
      for (const size_t user : graph.usersOf(node)) {
        if (std::exchange(seenBy[user], k) == k)
          continue;
        if (!onWay[user]) {
          way.push_back(user);
          continue;
        }
        ++middles;
        if (llvm::StringRef(graph.nodes[user]->name()).contains("NativeGroupNorm"))
          whyWhole_ =
              "LibTorch's group norm crashes where only gradients of its weights are wanted";
        if (const std::string custom = foreignClass(*graph.nodes[user]); !custom.empty())
          whyWhole_ = fmt::format("{}, an autograd function of a library, gives the gradients of "
                                  "weights and of inputs together",
                                  custom);
        if (!isMiddle[user])
          middles_.push_back({graph.nodes[user], {}, {}, {}});
        isMiddle[user] = true;
      }
    }
    // A walk from the first middle node would free what the second one needs, and both contribute
    // to one gradient in their own order.
    if (middles > 1)
      whyWhole_ = "one use of a weight feeds several operators";
  }
  if (!whyWhole_.empty())
    return;
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    if (!isMiddle[i] && !behind[i])
      others_.push_back(graph.nodes[i]);
  divideEdges(graph, behind);
}

void SplitWalk::divideEdges(const Graph &graph, const std::vector<bool> &behind) {
  for (Middle &middle : middles_) {
    bool isDivided = false;
    for (const ag::Edge &edge : middle.node->next_edges()) {
      const std::optional<size_t> next = graph.find(edge);
      const bool isWeight = next && behind[*next];
      middle.toInputs.push_back(isWeight ? ag::Edge() : edge);
      middle.toWeights.push_back(isWeight ? edge : ag::Edge());
      isDivided |= edge.is_valid() && !isWeight;
    }
    // Such a node holds the node of the written operator, whose edges must stay the same as its
    // own.
    if (isDivided && dynamic_cast<const ag::CopySlices *>(middle.node.get()))
      whyWhole_ = "a write in place into a part of a value gives the gradients of weights and of "
                  "inputs together";
  }
}

std::vector<at::Tensor> SplitWalk::walkToInputs(StartNode::Roots roots) {
  ag::edge_list wanted = inputs_;
  for (Middle &middle : middles_) {
    middle.node->next_edges() = std::move(middle.toInputs);
    for (uint32_t i = 0; i < middle.node->num_inputs(); ++i)
      wanted.emplace_back(middle.node, i);
  }
  std::vector<at::Tensor> found = StartNode::walk(std::move(roots), wanted, /*keepGraph=*/true);
  auto next = found.begin() + static_cast<std::ptrdiff_t>(inputs_.size());
  for (Middle &middle : middles_) {
    for (uint32_t i = 0; i < middle.node->num_inputs(); ++i)
      middle.gradients.push_back(std::move(*next++));
    middle.node->next_edges() = std::move(middle.toWeights);
  }
  found.resize(inputs_.size());
  // Outputs that are still in use keep these nodes alive; what only I reads goes in any case.
  for (const NodePtr &node : others_)
    node->release_variables();
  others_.clear();
  return found;
}

std::vector<at::Tensor> SplitWalk::walkToWeights() {
  StartNode::Roots roots;
  for (Middle &middle : middles_)
    for (uint32_t i = 0; i < middle.gradients.size(); ++i)
      roots.add({middle.node, i}, std::move(middle.gradients[i]));
  middles_.clear(); // the roots hold the nodes
  return StartNode::walk(std::move(roots), weights_, /*keepGraph=*/false);
}

} // namespace pipec
