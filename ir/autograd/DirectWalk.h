// A walk back through an autograd graph without LibTorch's engine.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/input_buffer.h>

#include <vector>

namespace pipec {

/// Gets a gradient as soon as it is whole: the place of its edge in `wanted`, and the tensor, which
/// it may take. Returns whether it took it.
using GradientSink = llvm::function_ref<bool(size_t number, at::Tensor &gradient)>;

/// Calls the nodes between `roots` and `wanted` in the engine's order, with the engine's sums and
/// checks, so that the gradients have the same bits. The engine saves and restores all settings of
/// the thread around each node, and locks its queue, which costs more than a small operator does.
///
/// It knows only graphs whose ends are all wanted: the engine leaves out what only leads to others.
/// It also knows neither hooks, nor anomaly mode, nor devices with streams.
///
/// One object serves many walks, one after the other: begin, run, clear. Between them it keeps the
/// memory of its lists, and no tensor.
class DirectWalk {
public:
  /// Looks at the graph between `roots` and `wanted`. Returns whether run() may be called; else the
  /// graph is one for the engine.
  bool begin(const torch::autograd::edge_list &roots, const torch::autograd::edge_list &wanted);

  /// Where gradients go.
  struct Found {
    llvm::MutableArrayRef<at::Tensor> gradients; // per wanted edge
    GradientSink sink;                           // null: none
  };

  /// Takes `gradients`, one per root, and writes one per wanted edge into `found`; undefined where
  /// none arrives, or where the sink took it. Throws LibTorch's exceptions.
  void run(const torch::autograd::edge_list &roots, std::vector<at::Tensor> &gradients,
           bool keepGraph, const Found &found);

  /// Ends a walk, at any point.
  void clear();

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
  bool find(const torch::autograd::edge_list &roots);
  void give(const torch::autograd::Edge &edge, at::Tensor gradient, const Found &found);
  void capture(const Visit &visit, const Found &found);
  void end(Visit &visit, const Found &found);
  void call(Visit &visit, bool keepGraph, const Found &found);
  at::Tensor sumOf(at::Tensor first, at::Tensor second, Node *node);

  std::vector<Visit> visits_; // the first used_ are of this walk
  size_t used_ = 0;
  llvm::SmallDenseMap<Node *, size_t, 16> numbers_; // only looked up
  std::vector<Capture> captures_;
  std::vector<size_t> todo_;
  std::vector<size_t> ready_; // a heap
  torch::autograd::InputBuffer sum_{1};
};

} // namespace pipec
