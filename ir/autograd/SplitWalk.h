// The backward in two parts: to the inputs, and from there on to the weights.
#pragma once

#include "ir/autograd/StartNode.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseMap.h"

#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>

#include <optional>
#include <string>
#include <vector>

namespace pipec {

/// The middle nodes of an autograd graph: the first on the way from a weight to the outputs that
/// also lie on a way from an input. I walks from the outputs to the inputs and keeps what arrives
/// at the middles; W walks from the middles to the weights, at any later time. A middle has only
/// its edges to inputs during I, and only those to weights during W.
///
///    outputs ---> ... ---> middle ---> ... ---> inputs       I
///                            |
///                            +-------> weights               W
///
/// After "Zero Bubble Pipeline Parallelism" (Qi et al., ICLR 2024), on nodes of autograd. All walks
/// go in visit order: no result depends on addresses.
class SplitWalk {
public:
  using NodePtr = decltype(torch::autograd::Edge::function);

  SplitWalk(const torch::autograd::edge_list &outputs, const torch::autograd::edge_list &inputs,
            const torch::autograd::edge_list &weights);

  /// Why the parts cannot be walked one after the other; empty: they can.
  const std::string &whyWhole() const { return whyWhole_; }

  /// How many operators of the run read a weight by this number of its edge: more than one in a
  /// loop.
  size_t readersOf(size_t weight) const { return readers_[weight]; }

  /// I: gradients at `inputs`. Throws LibTorch's exceptions. Afterwards what only I reads is free.
  std::vector<at::Tensor> walkToInputs(StartNode::Roots roots);
  /// W: gradients at `weights`, undefined where none arrives. Throws LibTorch's exceptions.
  std::vector<at::Tensor> walkToWeights();

private:
  using Node = torch::autograd::Node;

  /// The nodes from the outputs on, in visit order, and who uses each.
  struct Graph {
    explicit Graph(const torch::autograd::edge_list &outputs);
    /// Nothing: the outputs do not lead to it.
    std::optional<size_t> find(const torch::autograd::Edge &edge) const;
    llvm::ArrayRef<size_t> usersOf(size_t node) const {
      return llvm::ArrayRef<size_t>(users).slice(firstUser[node],
                                                 firstUser[node + 1] - firstUser[node]);
    }

    std::vector<NodePtr> nodes;
    llvm::DenseMap<Node *, size_t> numbers; // only looked up
    std::vector<size_t> users, firstUser;
  };

  /// `onWay`: outputs, and what leads from them to an input or another output.
  void findMiddles(const Graph &graph, const std::vector<bool> &onWay);
  /// Sets whyWhole_ if the edges of a middle must stay together.
  void divideEdges(const Graph &graph, const std::vector<bool> &behind);

  struct Middle {
    NodePtr node;
    torch::autograd::edge_list toInputs, toWeights; // its edges: the others have no node
    std::vector<at::Tensor> gradients;              // per input of the node, after I
  };

  torch::autograd::edge_list inputs_, weights_;
  std::vector<size_t> readers_; // per weight
  std::vector<NodePtr> others_; // what only I walks through
  std::vector<Middle> middles_;
  std::string whyWhole_;
};

} // namespace pipec
