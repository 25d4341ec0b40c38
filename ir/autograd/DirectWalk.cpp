#include "ir/autograd/DirectWalk.h"

#include "ir/autograd/GradLeaf.h"

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <string>

namespace pipec {

namespace ag = torch::autograd;

namespace {

bool isPlain(ag::Node &node) {
  if (hasHooks(node))
    return false;
  for (uint32_t i = 0; i < node.num_inputs(); ++i)
    if (!node.input_metadata(i).device().is_cpu())
      return false;
  return true;
}

/// Sums over broadcast dimensions, converts dtypes, and refuses what does not fit.
void checkGradients(const ag::edge_list &edges, ag::variable_list &gradients, ag::Node *from) {
  ag::validate_outputs(edges, gradients, [from](const std::string &message) {
    return "Function " + (from ? from->name() : "pipec::Start") + " returned an " + message;
  });
}

} // namespace

bool DirectWalk::begin(const ag::edge_list &roots, const ag::edge_list &wanted) {
  if (ag::AnomalyMode::is_enabled())
    return false;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (!wanted[i].function)
      continue;
    Visit &visit = visits_[number(wanted[i].function.get())];
    captures_.push_back({wanted[i].input_nr, i, visit.captures});
    visit.captures = captures_.size() - 1;
  }
  return find(roots);
}

void DirectWalk::clear() {
  for (size_t i = 0; i < used_; ++i) {
    visits_[i].inputs.clear();
    visits_[i] = Visit{.inputs = std::move(visits_[i].inputs)};
  }
  used_ = 0;
  numbers_.clear();
  captures_.clear();
  todo_.clear();
  ready_.clear();
  sum_.buffer[0].reset();
}

size_t DirectWalk::number(Node *node) {
  const auto [found, isNew] = numbers_.try_emplace(node, used_);
  if (isNew) {
    if (used_ == visits_.size())
      visits_.emplace_back();
    visits_[used_++].node = node;
  }
  return found->second;
}

bool DirectWalk::find(const ag::edge_list &roots) {
  auto reach = [&](const ag::Edge &edge) {
    const size_t at = number(edge.function.get());
    ++visits_[at].waitsFor;
    if (!std::exchange(visits_[at].isFound, true))
      todo_.push_back(at);
  };
  for (const ag::Edge &root : roots)
    reach(root);
  while (!todo_.empty()) {
    const size_t at = todo_.back();
    todo_.pop_back();
    Node *const node = visits_[at].node;
    bool hasNext = false;
    for (const ag::Edge &next : node->next_edges())
      if (next.is_valid()) {
        hasNext = true;
        reach(next);
      }
    visits_[at].hasNext = hasNext;
    if (!isPlain(*node) || (!hasNext && visits_[at].captures == kNone))
      return false;
  }
  return true;
}

/// LibTorch's own sum of two gradients, which is in place where nothing else holds the first.
at::Tensor DirectWalk::sumOf(at::Tensor first, at::Tensor second, Node *node) {
  sum_.buffer[0] = std::move(first);
  sum_.add(0, std::move(second), std::nullopt, std::nullopt, node);
  return std::move(sum_.buffer[0]);
}

void DirectWalk::give(const ag::Edge &edge, at::Tensor gradient, const Found &found) {
  const size_t at = numbers_.find(edge.function.get())->second;
  Visit &visit = visits_[at];
  if (visit.inputs.empty())
    visit.inputs.resize(visit.node->num_inputs());
  if (gradient.defined()) {
    at::Tensor &input = visit.inputs.at(edge.input_nr);
    input = input.defined() ? sumOf(std::move(input), std::move(gradient), visit.node)
                            : std::move(gradient);
  }
  if (--visit.waitsFor > 0)
    return;
  if (!visit.hasNext)
    return end(visit, found);
  ready_.push_back(at);
  std::push_heap(ready_.begin(), ready_.end(), [this](size_t a, size_t b) {
    return visits_[a].node->sequence_nr() < visits_[b].node->sequence_nr();
  });
}

void DirectWalk::capture(const Visit &visit, const Found &found) {
  for (size_t c = visit.captures; c != kNone; c = captures_[c].next)
    found.gradients[captures_[c].result] = visit.inputs[captures_[c].input];
}

/// Nothing runs at an end, so it need not wait for its turn: a weight has its gradient while that
/// is in the caches, and the next one gets its memory.
void DirectWalk::end(Visit &visit, const Found &found) {
  const Capture &first = captures_[visit.captures];
  at::Tensor &gradient = visit.inputs[first.input];
  const bool isTaken =
      found.sink && first.next == kNone && gradient.defined() && found.sink(first.result, gradient);
  if (!isTaken)
    capture(visit, found);
  visit.inputs.clear();
}

void DirectWalk::call(Visit &visit, bool keepGraph, const Found &found) {
  capture(visit, found);
  Node &node = *visit.node;
  if (!keepGraph)
    node.will_release_variables();
  ag::variable_list outputs = node(std::move(visit.inputs)); // most nodes leave the list itself
  visit.inputs.clear(); // as in the engine, only the outputs hold what they share with the inputs
  checkGradients(node.next_edges(), outputs, &node);
  if (!keepGraph)
    node.release_variables();
  for (size_t i = 0; i < outputs.size(); ++i)
    if (const ag::Edge &next = node.next_edge(i); next.is_valid())
      give(next, std::move(outputs[i]), found);
}

void DirectWalk::run(const ag::edge_list &roots, std::vector<at::Tensor> &gradients, bool keepGraph,
                     const Found &found) {
  c10::AutoGradMode noGrad(false);
  checkGradients(roots, gradients, nullptr);
  for (size_t i = 0; i < roots.size(); ++i)
    give(roots[i], std::move(gradients[i]), found);
  while (!ready_.empty()) {
    std::pop_heap(ready_.begin(), ready_.end(), [this](size_t a, size_t b) {
      return visits_[a].node->sequence_nr() < visits_[b].node->sequence_nr();
    });
    const size_t at = ready_.back();
    ready_.pop_back();
    call(visits_[at], keepGraph, found);
  }
}

} // namespace pipec
