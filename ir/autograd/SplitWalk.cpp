#include "ir/autograd/SplitWalk.h"

#include "ir/support/Llvm.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"
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

/// Why a node of this class must run once; empty: it need not.
static std::string whyOnce(const ag::Node &node) {
  if (const std::string custom = foreignClass(node); !custom.empty())
    return fmt::format("{}, an autograd function of a library, gives the gradients of weights and "
                       "of inputs together",
                       custom);
  if (llvm::StringRef(node.name()).contains("NativeGroupNorm"))
    return "LibTorch's group norm crashes where only gradients of its weights are wanted";
  return "";
}

/// The names of classes are texts that LibTorch makes anew for each call.
const std::string &SplitWalk::Search::whyNotTwice(const Node &node) {
  const std::type_index type = typeid(node);
  const auto known = llvm::find_if(reasons_, [&](const auto &each) { return each.first == type; });
  return known != reasons_.end() ? known->second
                                 : reasons_.emplace_back(type, whyOnce(node)).second;
}

void SplitWalk::Search::listNodes(const ag::edge_list &outputs) {
  auto add = [this](const ag::Edge &edge) {
    const auto [found, isNew] = numbers_.try_emplace(edge.function.get(), nodes_.size());
    if (isNew)
      nodes_.push_back(edge.function);
    return found->second;
  };
  for (const ag::Edge &edge : outputs)
    if (edge.function)
      add(edge);
  for (size_t i = 0; i < nodes_.size(); ++i) {
    Node *const node = nodes_[i].get(); // nodes_ grows
    for (const ag::Edge &next : node->next_edges())
      if (next.function)
        uses_.emplace_back(add(next), i);
  }
  firstUser_.assign(nodes_.size() + 1, 0);
  for (const auto &[used, user] : uses_)
    ++firstUser_[used + 1];
  std::partial_sum(firstUser_.begin(), firstUser_.end(), firstUser_.begin());
  users_.resize(uses_.size());
  next_.assign(firstUser_.begin(), firstUser_.end() - 1);
  for (const auto &[used, user] : uses_)
    users_[next_[used]++] = user;
}

std::optional<size_t> SplitWalk::Search::find(const ag::Edge &edge) const {
  const auto found = edge.function ? numbers_.find(edge.function.get()) : numbers_.end();
  return found == numbers_.end() ? std::nullopt : std::optional(found->second);
}

void SplitWalk::Search::findWay(const ag::edge_list &outputs, const ag::edge_list &inputs) {
  onWay_.assign(nodes_.size(), false);
  for (const ag::Edge &input : inputs)
    if (const std::optional<size_t> node = find(input))
      todo_.push_back(*node);
  // An output that only weights reach is a middle, too, and so is the way from it to other outputs.
  for (const ag::Edge &edge : outputs)
    if (const std::optional<size_t> node = find(edge); node && !behind_[*node])
      todo_.push_back(*node);
  while (!todo_.empty()) {
    const size_t node = todo_.back();
    todo_.pop_back();
    if (onWay_[node])
      continue;
    onWay_[node] = true;
    llvm::append_range(todo_, usersOf(node));
  }
}

void SplitWalk::Search::findWeights(const ag::edge_list &weights) {
  behind_.assign(nodes_.size(), false);
  for (const ag::Edge &weight : weights)
    if (const std::optional<size_t> node = find(weight))
      behind_[*node] = true;
}

void SplitWalk::Search::clear() {
  nodes_.clear();
  numbers_.clear();
  uses_.clear();
  todo_.clear();
}

void SplitWalk::begin(const ag::edge_list &outputs, const ag::edge_list &inputs,
                      const ag::edge_list &weights, Search &search) {
  const auto ended = atScopeEnd([&] { search.clear(); });
  inputs_ = inputs;
  weights_ = weights;
  search.listNodes(outputs);
  isWholeLater_ = llvm::none_of(inputs, [&](const ag::Edge &input) { return search.find(input); });
  if (isWholeLater_)
    return;
  search.findWeights(weights);
  for (const ag::Edge &output : outputs)
    if (const std::optional<size_t> node = search.find(output); node && search.behind_[*node])
      weightResults_.push_back(output);
  search.findWay(outputs, inputs);
  findMiddles(search);
}

void SplitWalk::findMiddles(Search &search) {
  const size_t nodes = search.nodes_.size();
  search.isMiddle_.assign(nodes, false);
  std::vector<size_t> &way = search.todo_;
  for (size_t i = 0; i < nodes; ++i)
    if (search.behind_[i]) // so far, only weights are
      way.push_back(i);
  while (!way.empty()) {
    const size_t node = way.back();
    way.pop_back();
    for (const size_t user : search.usersOf(node)) {
      std::vector<bool> &seen = search.onWay_[user] ? search.isMiddle_ : search.behind_;
      if (seen[user])
        continue;
      seen[user] = true;
      if (!search.onWay_[user]) {
        way.push_back(user);
        continue;
      }
      middles_.push_back(search.nodes_[user]);
      if (const std::string &why = search.whyNotTwice(*search.nodes_[user]); !why.empty())
        whyWhole_ = why;
    }
  }
  if (!whyWhole_.empty())
    return;
  for (size_t i = 0; i < nodes; ++i)
    if (!search.isMiddle_[i] && !search.behind_[i])
      others_.push_back(search.nodes_[i]);
  divideEdges(search);
}

void SplitWalk::divideEdges(const Search &search) {
  for (size_t m = 0; m < middles_.size(); ++m) {
    bool isDivided = false;
    const ag::edge_list &edges = middles_[m]->next_edges();
    for (size_t i = 0; i < edges.size(); ++i) {
      const std::optional<size_t> next = search.find(edges[i]);
      const bool isWeight = next && search.behind_[*next];
      if (isWeight)
        weightEdges_.push_back({m, i, edges[i]});
      isDivided |= edges[i].is_valid() && !isWeight;
    }
    // Such a node holds the node of the written operator, whose edges must stay the same as its
    // own.
    if (isDivided && dynamic_cast<const ag::CopySlices *>(middles_[m].get()))
      whyWhole_ = "a write in place into a part of a value gives the gradients of weights and of "
                  "inputs together";
  }
}

void SplitWalk::keepRoots(WalkRoots &roots, llvm::function_ref<bool(const ag::Edge &)> isOfInputs) {
  size_t left = 0;
  for (size_t i = 0; i < roots.edges.size(); ++i) {
    if (isOfInputs(roots.edges[i])) {
      std::swap(roots.edges[left], roots.edges[i]);
      std::swap(roots.gradients[left++], roots.gradients[i]);
      continue;
    }
    later_.add(roots.edges[i], std::move(roots.gradients[i]));
  }
  roots.edges.resize(left);
  roots.gradients.resize(left);
}

void SplitWalk::walkToInputs(GraphWalk &walk) {
  walk.wanted = inputs_;
  if (isWholeLater_) {
    // What other stages found for an input that this stage only hands on starts at the input
    // itself.
    keepRoots(walk.roots,
              [this](const ag::Edge &root) { return llvm::is_contained(inputs_, root); });
    walk.run(/*keepGraph=*/true);
    return;
  }
  if (!weightResults_.empty())
    keepRoots(walk.roots,
              [this](const ag::Edge &root) { return !llvm::is_contained(weightResults_, root); });
  for (const WeightEdge &each : weightEdges_)
    middles_[each.middle]->next_edges()[each.number] = ag::Edge();
  for (const NodePtr &middle : middles_)
    for (uint32_t i = 0; i < middle->num_inputs(); ++i)
      walk.wanted.emplace_back(middle, i);
  walk.run(/*keepGraph=*/true);
  for (const NodePtr &middle : middles_)
    for (ag::Edge &edge : middle->next_edges())
      edge = ag::Edge();
  for (WeightEdge &each : weightEdges_)
    middles_[each.middle]->next_edges()[each.number] = std::move(each.edge);
  weightEdges_.clear();
  size_t next = inputs_.size();
  for (const NodePtr &middle : middles_)
    for (uint32_t i = 0; i < middle->num_inputs(); ++i)
      later_.add({middle, i}, std::move(walk.found[next++]));
  middles_.clear();
  walk.found.resize(inputs_.size());
  // Outputs that are still in use keep these nodes alive; what only I reads goes in any case.
  for (const NodePtr &node : others_)
    node->release_variables();
  others_.clear();
}

int64_t SplitWalk::pendingBytes() const {
  llvm::SmallPtrSet<const void *, 8> counted;
  int64_t bytes = 0;
  for (const at::Tensor &gradient : later_.gradients)
    if (gradient.has_storage() && counted.insert(gradient.storage().unsafeGetStorageImpl()).second)
      bytes += static_cast<int64_t>(gradient.storage().nbytes());
  return bytes;
}

void SplitWalk::walkToWeights(GraphWalk &walk, GradientSink sink) {
  for (size_t i = 0; i < later_.edges.size(); ++i)
    walk.roots.add(later_.edges[i], std::move(later_.gradients[i]));
  later_.clear(); // the walk's roots hold the nodes
  walk.wanted = weights_;
  walk.run(/*keepGraph=*/false, sink);
}

void SplitWalk::clear() {
  inputs_.clear();
  weights_.clear();
  weightResults_.clear();
  others_.clear();
  middles_.clear();
  weightEdges_.clear();
  isWholeLater_ = false;
  later_.clear();
  whyWhole_.clear();
}

} // namespace pipec
