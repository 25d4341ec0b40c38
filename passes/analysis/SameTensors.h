// Which values may be one tensor object, whose gradients autograd then sums in one place.
#pragma once

#include "llvm/ADT/DenseMap.h"

#include <set>

namespace torch::jit {
struct Block;
struct Node;
struct Value;
} // namespace torch::jit

namespace pipec {

/// Follows operators that may return an argument itself, as contiguous() does, writes in place,
/// branches, loops and containers. Two views of one memory are two tensors.
class SameTensors {
public:
  /// Of a flat graph; values that operators of these blocks make.
  explicit SameTensors(const torch::jit::Block &block) {
    while (visit(block)) {
    }
  }

  /// Whether one value may be, or hold, a tensor that the other one is or holds.
  bool maybe(const torch::jit::Value *a, const torch::jit::Value *b) const;

private:
  using Block = torch::jit::Block;
  using Node = torch::jit::Node;
  using Value = torch::jit::Value;
  using Makers = std::set<const Value *>; // the values whose operators may have made its tensors

  Makers makersOf(const Value *value) const;
  // All return true if more is known now.
  bool add(const Value *value, const Value *from);
  bool put(const Value *value, const Value *container);
  bool visit(const Block &block);
  bool visitIf(const Node &node);
  bool visitLoop(const Node &node);
  bool visitOperator(const Node &node);

  llvm::DenseMap<const Value *, Makers> makers_; // only looked up; not in it: the value itself
};

} // namespace pipec
