// The way back in two parts: to the inputs, and from there on to the weights.
#pragma once

#include "ir/autograd/StartNode.h"

#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>

#include <string>
#include <unordered_map>
#include <vector>

namespace pipec {

/// The middle nodes of an autograd graph: the first on the way from a weight to the outputs that
/// also lie on a way from an input. I walks from the outputs to the inputs and keeps what arrives
/// at the middles; W walks from each middle to its weights, at any later time.
///
///    outputs ---> ... ---> middle ---> ... ---> inputs       I
///                            |
///                            +-------> weights               W
///
/// As in "Zero Bubble Pipeline Parallelism" (Qi et al., ICLR 2024), on nodes of autograd. All walks
/// go in visit order: no result depends on addresses.
class SplitWalk {
public:
  using NodePtr = decltype(torch::autograd::Edge::function);

  SplitWalk(const torch::autograd::edge_list &outputs, const torch::autograd::edge_list &inputs,
            const torch::autograd::edge_list &weights);

  /// Why the parts cannot be walked one after the other; empty: they can.
  const std::string &whyWhole() const { return whyWhole_; }

  /// I: gradients at `inputs`. Throws LibTorch's exceptions. Afterwards what only I reads is free.
  std::vector<at::Tensor> walkToInputs(StartNode::Roots roots);
  /// W: gradients at `weights`, undefined where none arrives. Throws LibTorch's exceptions.
  std::vector<at::Tensor> walkToWeights();

private:
  using Node = torch::autograd::Node;
  void findAll(const torch::autograd::edge_list &outputs);
  void findMiddles(const torch::autograd::edge_list &outputs);
  void releaseOthers();

  struct Middle {
    NodePtr node;
    std::vector<size_t> weights;
    std::vector<at::Tensor> gradients; // per input of the node, after I
  };

  torch::autograd::edge_list inputs_, weights_;
  std::vector<NodePtr> all_;
  std::unordered_map<Node *, std::vector<NodePtr>> users_; // only looked up
  std::unordered_map<Node *, size_t> middleOf_;            // only looked up
  std::unordered_map<Node *, size_t> behind_;              // between a middle and a weight
  std::vector<Middle> middles_;
  std::string whyWhole_;
};

} // namespace pipec
