// Operators of a part without gradients: they compute without a graph.
#pragma once

#include "ir/Model.h"
#include "llvm/Support/Error.h"
#include "passes/WholeForms.h"

#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace pipec {

/// One part without gradients, from the node before which it begins.
struct GradRegion {
  torch::jit::Node *begin;
  std::unordered_set<const torch::jit::Value *> inside = {}; // values that it defines
  std::unordered_set<const torch::jit::Value *> bare = {};   // of these, those without a graph
  std::unordered_map<const torch::jit::Value *, torch::jit::Value *> detached = {}; // looked up
};

/// Makes operators of such parts read detached tensors.
///
/// An operator that returns its argument itself, as contiguous() may, gives PyTorch a tensor with a
/// graph. Only a run shows whether it does, so stages decide it there:
///
///       k = h.contiguous()        =>   %h1 = aten::detach(%h)
///                                      %k1 = aten::contiguous(%h1)
///                                      %k  = %h if %k1 is %h1, else %k1
///
/// Operators of the part read %k1 in both cases.
///
/// Products, recurrent layers and the masks of attention ask what their arguments require, and
/// choose by that how they compute (asksWhatIsRequired). So they read what PyTorch gives them,
/// views of a whole tensor included (WholeForms.h), and their results are detached. The graph of
/// such a result is gone with the next operator:
///
///       t = linear(x, w)          =>   %t1 = aten::linear(%x, %w)
///                                      %t  = aten::detach(%t1)
///
/// Behind the part, PyTorch has such a view as a leaf that requires gradients, which go nowhere.
/// Products there read one.
///
/// An LSTM chooses by the mode (asksForGradMode), and an operator that writes the tensors of a list
/// needs that list, whatever is in it. These alone run with gradients switched off
/// (GradModeSwitch.h).
///
/// One object serves all regions of a model, in the order of the nodes: what follows a region may
/// use views that it made.
class BareOperators {
public:
  /// The model outlives it, and still has `self`.
  explicit BareOperators(const Model &model) : model_(model) {}

  /// Makes an operator of the region compute without a graph, and returns whether it changed
  /// anything. Error: the refusal hidden-tensors.
  llvm::Expected<bool> lower(torch::jit::Node *node, GradRegion &region);
  /// Gives an operator outside of all regions a leaf where PyTorch has one for a region's view.
  void readLeaves(torch::jit::Node *node);

private:
  using Node = torch::jit::Node;
  using Value = torch::jit::Value;

  /// A tensor that the operator was given, and the bare form that it reads now.
  struct Given {
    Value *whole, *bare;
  };

  Value *leafOf(Value *whole);
  /// Its results have no graph, whatever it reads.
  void computeInMode(Node *node, GradRegion &region);
  /// It gets the list itself, not one of detached tensors: LibTorch drops a write into the tensors
  /// of a list that nothing reads afterwards. A returned list holds the tensors with their graphs.
  void writeInMode(Node *node, GradRegion &region);
  /// Where the operator returns its first argument itself, or one of a list, the result keeps that
  /// one's graph. Only a run shows whether it does.
  void keepReturned(Node *node, Value *argument, GradRegion &region);
  /// Of `given` the tensor that `made` is; `made` if it is a new one.
  Value *chosen(Node *node, Value *made, const std::vector<Given> &given, GradRegion &region);
  /// The same for each element of a list: the operator made it of a list of as many tensors.
  Value *chosenOfList(Node *node, const std::vector<Given> &given, GradRegion &region);
  /// The value without the graphs of its tensors; null where that cannot be made.
  Value *bareFormOf(Value *value, Node *user, GradRegion &region);
  /// A tensor that the region made, a constant, a buffer (state gets no graph), or a list of these.
  bool isBare(Value *value, const GradRegion &region) const;
  /// Made of bare tensors, and it gets no others.
  bool isBareList(Value *list, const GradRegion &region) const;
  bool isArgument(const Value *value) const;
  /// Whether a change of a list puts only bare tensors into it, and does not return it.
  bool addsOnlyBare(const torch::jit::Use &change, const GradRegion &region) const;
  /// One per tensor and region, where both begin to exist.
  Value *detached(Value *value, Node *user, GradRegion &region);
  /// For arguments that may or may not be tensors, lists from elsewhere, and operators that ask
  /// what their arguments require.
  llvm::Error detachResults(Node *node, GradRegion &region);

  const Model &model_;
  WholeForms forms_;
  std::unordered_set<const Value *> made_; // without a graph
  std::unordered_map<const Value *, Value *> leaves_;
};

} // namespace pipec
