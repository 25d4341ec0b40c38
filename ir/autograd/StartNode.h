// The node at which a backward starts with gradients that other stages computed.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>

#include <vector>

namespace pipec {

/// Walks that begin at several places.
struct StartNode {
  struct Roots {
    torch::autograd::edge_list edges;
    std::vector<at::Tensor> gradients; // of each edge

    void add(const torch::autograd::Edge &edge, at::Tensor gradient);
  };

  /// The engine's execute() for these roots; gradients at `wanted`, undefined for edges without a
  /// node and where none arrives. The engine's own roots are held by the caller while it runs, so
  /// that a sum with them gets new memory and, of tensors with other strides, another layout than
  /// in the unsplit model. Here the engine owns them. Throws LibTorch's exceptions.
  static std::vector<at::Tensor> walk(Roots roots, const torch::autograd::edge_list &wanted,
                                      bool keepGraph);
};

} // namespace pipec
