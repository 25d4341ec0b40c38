// A walk back through an autograd graph without LibTorch's engine.
#pragma once

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>

#include <vector>

namespace pipec {

/// Calls the nodes between `roots` and `wanted` in the engine's order, with the engine's sums and
/// checks, so that the gradients have the same bits. The engine saves and restores all settings of
/// the thread around each node, and locks its queue, which costs more than a small operator does.
///
/// It knows only graphs whose ends are all wanted: the engine leaves out what only leads to others.
/// It also knows neither hooks, nor anomaly mode, nor devices with streams.
class DirectWalk {
public:
  /// `roots` outlive it.
  DirectWalk(const torch::autograd::edge_list &roots, const torch::autograd::edge_list &wanted);

  /// Whether run() may be called; else the graph is one for the engine.
  bool isPossible() const { return isPossible_; }

  /// One gradient per wanted edge; undefined where none arrives. `gradients`: one per root. Used
  /// once. Throws LibTorch's exceptions.
  std::vector<at::Tensor> run(std::vector<at::Tensor> gradients, bool keepGraph);

private:
  using Node = torch::autograd::Node;
  static constexpr size_t kNone = ~size_t(0);

  struct Visit {
    Node *node = nullptr;
    size_t waitsFor = 0;     // edges that have not brought their gradient yet
    size_t captures = kNone; // the first of captures_
    bool isFound = false;    // from the roots
    bool hasNext = false;    // an edge that leads on
    std::vector<at::Tensor> inputs;
  };
  struct Capture {
    size_t input = 0, result = 0;
    size_t next = kNone; // of the same node
  };

  size_t number(Node *node);
  void find(const torch::autograd::edge_list &roots);
  void give(const torch::autograd::Edge &edge, at::Tensor gradient);
  void call(Visit &visit, bool keepGraph);

  const torch::autograd::edge_list &roots_;
  // Few nodes, as of small stages, need no memory of their own.
  llvm::SmallVector<Visit, 16> visits_;
  llvm::SmallDenseMap<Node *, size_t, 16> numbers_; // only looked up
  llvm::SmallVector<Capture, 8> captures_;
  llvm::SmallVector<size_t, 8> ready_; // a heap
  std::vector<at::Tensor> results_;
  bool isPossible_ = true;
};

} // namespace pipec
