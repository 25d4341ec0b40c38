// The backward in two parts: to the inputs, and from there on to the weights.
#pragma once

#include "ir/autograd/GraphWalk.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>

#include <optional>
#include <string>
#include <typeindex>
#include <utility>
#include <vector>

namespace pipec {

/// The middle nodes of an autograd graph: the first on the way from a weight to the outputs that
/// also lie on a way from an input. I walks from the outputs to the inputs and keeps what arrives
/// at the middles; W walks from all middles to the weights, at any later time. A middle has only
/// its edges to inputs during I, and only those to weights during W. So W adds what the uses of a
/// weight contribute in the order of the whole walk, also if one use depends on another.
///
///    outputs ---> ... ---> middle ---> ... ---> inputs       I
///                            |
///                            +-------> weights               W
///
/// A weight that is itself an output gets what arrives there in W, before what its uses contribute.
/// Where the outputs lead to no input, as in a first stage, I only keeps the roots, and W is the
/// whole backward.
///
/// After "Zero Bubble Pipeline Parallelism" (Qi et al., ICLR 2024), on nodes of autograd. All walks
/// go in visit order: no result depends on addresses.
///
/// One object serves many graphs, one after the other: begin, walkToInputs, walkToWeights, clear.
class SplitWalk {
public:
  using NodePtr = decltype(torch::autograd::Edge::function);
  class Search;

  /// Looks at a graph. `outputs` and `inputs` are its ends. `search`: not in use.
  void begin(const torch::autograd::edge_list &outputs, const torch::autograd::edge_list &inputs,
             const torch::autograd::edge_list &weights, Search &search);

  /// Why the parts cannot be walked one after the other; empty: they can.
  const std::string &whyWhole() const { return whyWhole_; }

  /// I: walks from walk.roots; walk.found has gradients at `inputs` first. Throws LibTorch's
  /// exceptions. Afterwards what only I reads is free.
  void walkToInputs(GraphWalk &walk);
  /// Between the two: bytes of the gradients that W starts from, each storage once.
  int64_t pendingBytes() const;
  /// W: walk.found has gradients at `weights`, undefined where none arrives or `sink` took it.
  /// Throws LibTorch's exceptions.
  void walkToWeights(GraphWalk &walk, GradientSink sink = nullptr);

  /// Forgets the graph, and keeps the memory of the lists.
  void clear();

private:
  using Node = torch::autograd::Node;

  /// An edge from a middle to a weight.
  struct WeightEdge {
    size_t middle = 0, number = 0; // number: of the middle's edges
    torch::autograd::Edge edge;
  };

  void findMiddles(Search &search);
  /// Leaves in `roots` what I walks from, and keeps the others for W.
  void keepRoots(WalkRoots &roots,
                 llvm::function_ref<bool(const torch::autograd::Edge &)> isOfInputs);
  /// Sets whyWhole_ if the edges of a middle must stay together.
  void divideEdges(const Search &search);

  torch::autograd::edge_list inputs_, weights_;
  torch::autograd::edge_list weightResults_; // outputs that are weights
  std::vector<NodePtr> others_;              // what only I walks through
  std::vector<NodePtr> middles_;
  std::vector<WeightEdge> weightEdges_;
  bool isWholeLater_ = false; // the outputs lead to no input
  WalkRoots later_;           // after I: where W begins
  std::string whyWhole_;
};

/// Lists that begin() uses. Empty between calls, with their memory kept.
class SplitWalk::Search {
private:
  friend class SplitWalk;

  /// The nodes from the outputs on, in visit order, and who uses each.
  void listNodes(const torch::autograd::edge_list &outputs);
  /// Notes what leads from the outputs to an input, or to another output that is no weight.
  void findWay(const torch::autograd::edge_list &outputs, const torch::autograd::edge_list &inputs);
  void findWeights(const torch::autograd::edge_list &weights);
  /// Nothing: the outputs do not lead to it.
  std::optional<size_t> find(const torch::autograd::Edge &edge) const;
  llvm::ArrayRef<size_t> usersOf(size_t node) const {
    return llvm::ArrayRef<size_t>(users_).slice(firstUser_[node],
                                                firstUser_[node + 1] - firstUser_[node]);
  }
  const std::string &whyNotTwice(const Node &node);
  void clear();

  std::vector<NodePtr> nodes_;
  llvm::SmallDenseMap<Node *, size_t, 16> numbers_; // only looked up
  std::vector<std::pair<size_t, size_t>> uses_;     // used node, its user
  std::vector<size_t> users_, firstUser_, next_;
  std::vector<bool> onWay_;             // outputs, and what leads from them to an input or output
  std::vector<bool> behind_, isMiddle_; // behind_: only on ways to weights
  std::vector<size_t> todo_;
  std::vector<std::pair<std::type_index, std::string>> reasons_; // by class, for all graphs
};

} // namespace pipec
