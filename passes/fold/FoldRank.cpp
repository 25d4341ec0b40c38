#include "passes/fold/FoldRank.h"

#include "llvm/ADT/ArrayRef.h"

#include <map>
#include <optional>

namespace pipec {

namespace {

using torch::jit::Node;
using torch::jit::Value;

/// The rank of a tensor that branches choose, or that an operator makes from another with the same
/// rank.
class RankThroughBranches {
public:
  explicit RankThroughBranches(const Folding &folding) : folding_(folding) {}

  std::optional<int64_t> of(const Value *tensor) {
    auto [known, isNew] = ranks_.try_emplace(tensor, std::nullopt);
    if (!isNew)
      return known->second;
    const std::optional<int64_t> rank = find(tensor);
    ranks_[tensor] = rank;
    return rank;
  }

  /// The tensors whose ranks were taken from types, in order of encounter.
  llvm::ArrayRef<const Value *> reliedOn() const { return reliedOn_; }

private:
  std::optional<int64_t> find(const Value *tensor) {
    if (std::optional<int64_t> rank = folding_.rankOf(tensor)) {
      reliedOn_.push_back(tensor);
      return rank;
    }
    const Node *node = tensor->node();
    if (keepsRank(node->kind()))
      return of(node->input(0));
    if (node->kind() != c10::prim::If)
      return std::nullopt;
    const std::optional<int64_t> first = of(node->blocks()[0]->outputs()[tensor->offset()]);
    if (!first || of(node->blocks()[1]->outputs()[tensor->offset()]) != first)
      return std::nullopt;
    return first;
  }

  /// A nested tensor has the rank of the padded one.
  static bool keepsRank(c10::Symbol kind) {
    static const c10::Symbol layer = c10::Symbol::aten("_transformer_encoder_layer_fwd"),
                             nested = c10::Symbol::aten("_nested_tensor_from_mask");
    return kind == layer || kind == nested || kind == c10::prim::unchecked_cast;
  }

  const Folding &folding_;
  std::map<const Value *, std::optional<int64_t>> ranks_; // looked up only
  std::vector<const Value *> reliedOn_;
};

} // namespace

bool foldRank(Folding &folding, Node *node, Value *of) {
  RankThroughBranches ranks(folding);
  std::optional<int64_t> rank = folding.givenRank(node);
  if (!rank)
    rank = ranks.of(of);
  folding.noteAnswer(node, "rank", rank ? std::optional(std::to_string(*rank)) : std::nullopt);
  if (!rank)
    return false;
  for (const Value *tensor : ranks.reliedOn())
    folding.relyOn(tensor, "rank", std::to_string(*rank));
  return folding.replaceByConstant(node->output(), *rank);
}

} // namespace pipec
