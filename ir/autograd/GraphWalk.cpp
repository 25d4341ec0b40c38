#include "ir/autograd/GraphWalk.h"

#include "llvm/ADT/STLExtras.h"

#include <ATen/ops/ones.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>

namespace pipec {

namespace ag = torch::autograd;

namespace {

/// Gives its gradients away when the engine runs it.
class Start final : public ag::Node {
public:
  explicit Start(ag::variable_list gradients) : gradients_(std::move(gradients)) {}
  ag::variable_list apply(ag::variable_list &&) override { return std::move(gradients_); }
  std::string name() const override { return "pipec::Start"; }

private:
  ag::variable_list gradients_;
};

} // namespace

void WalkRoots::add(const ag::Edge &edge, at::Tensor gradient) {
  if (!edge.function || !gradient.defined())
    return;
  edges.push_back(edge);
  gradients.push_back(std::move(gradient));
}

void GraphWalk::run(bool keepGraph, GradientSink sink) {
  found.assign(wanted.size(), at::Tensor());
  if (roots.edges.empty() ||
      llvm::none_of(wanted, [](const ag::Edge &edge) { return edge.function != nullptr; }))
    return;
  if (direct_.begin(roots.edges, wanted))
    direct_.run(roots.edges, roots.gradients, keepGraph, {found, sink});
  else
    runEngine(keepGraph);
}

void GraphWalk::runEngine(bool keepGraph) {
  ag::edge_list asked;
  for (const ag::Edge &edge : wanted)
    if (edge.function)
      asked.push_back(edge);
  const at::Tensor signal = at::ones({});
  auto start = std::make_shared<Start>(std::move(roots.gradients));
  start->add_input_metadata(signal);
  start->set_next_edges(std::move(roots.edges));
  ag::variable_list gradients = ag::Engine::get_default_engine().execute(
      {ag::Edge(std::move(start), 0)}, {signal}, keepGraph, /*create_graph=*/false,
      /*accumulate_grad=*/false, asked);
  size_t at = 0;
  for (size_t i = 0; i < wanted.size(); ++i)
    if (wanted[i].function)
      found[i] = std::move(gradients[at++]);
}

void GraphWalk::clear() {
  direct_.clear();
  roots.clear();
  wanted.clear();
  found.clear();
}

} // namespace pipec
