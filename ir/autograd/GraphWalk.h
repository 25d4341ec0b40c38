// A walk back through a graph that starts with gradients that other stages computed.
#pragma once

#include "ir/autograd/DirectWalk.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>

#include <vector>

namespace pipec {

/// The places where a walk begins, and a gradient for each.
struct WalkRoots {
  torch::autograd::edge_list edges;
  std::vector<at::Tensor> gradients;

  /// Does nothing for an edge without a node, or without a gradient.
  void add(const torch::autograd::Edge &edge, at::Tensor gradient);
  void clear() {
    edges.clear();
    gradients.clear();
  }
};

/// Serves many walks, one after the other: fill `roots` and `wanted`, run(), read `found`, clear().
/// After clear() it holds no tensor and no graph, only the memory of its lists.
class GraphWalk {
public:
  WalkRoots roots;
  torch::autograd::edge_list wanted;
  std::vector<at::Tensor> found; // at `wanted`; undefined for edges without a node, and where none
                                 // arrives

  /// The engine's execute(). The engine's own roots are held by the caller while it runs, so that a
  /// sum with them gets new memory and, of tensors with other strides, another layout than in the
  /// unsplit model. Here the engine owns them. `sink`: may take gradients of `wanted`, which are
  /// then not in `found`; it is not asked where the engine itself walks.
  /// Throws LibTorch's exceptions.
  void run(bool keepGraph, GradientSink sink = nullptr);

  void clear();

private:
  void runEngine(bool keepGraph);

  DirectWalk direct_;
};

} // namespace pipec
