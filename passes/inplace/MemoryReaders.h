// The other readers of a memory whose write becomes a new value, and when they read: values that
// are no names of the tensor, and lists, tuples and objects that may hold it.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseMap.h"

#include <optional>
#include <vector>

namespace torch::jit {
struct Block;
struct Node;
struct Value;
} // namespace torch::jit

namespace pipec {

class AliasAnalysis;
struct Model;

/// For one model while it changes: new nodes take the place of old ones.
class MemoryReaders {
public:
  MemoryReaders(const Model &model, const AliasAnalysis &alias);

  void placeAs(const torch::jit::Node *made, const torch::jit::Node *old);
  void forget(const torch::jit::Node *made) { order_.erase(made); }

  /// Adds a value that shows the memory and is no name of the tensor, in order of definition.
  void note(size_t memory, const torch::jit::Value *value);

  /// Whether other readers see the memory of a tensor that `maker` made, before `writer` and
  /// afterwards.
  bool see(size_t memory, const torch::jit::Node *maker, const torch::jit::Node *writer);

  /// Per memory: the memories that may hold it.
  const std::vector<std::vector<size_t>> &heldBy() const { return heldBy_; }

private:
  /// When a value is made and when it is last used, as numbers of order_.
  struct Life {
    size_t made, used;
  };

  /// Numbers nodes in order of execution. A node with blocks comes after them, as its results do.
  void number(torch::jit::Block *block, size_t &next);
  size_t orderOf(const torch::jit::Node *node) const;
  /// The life up to the last use. If the value comes from outside a loop, the next iteration
  /// uses it too.
  Life lifeOf(const torch::jit::Value *value) const;
  /// Lists, tuples and objects that may hold the memory, at any depth.
  llvm::ArrayRef<Life> holdersOf(size_t memory);

  const AliasAnalysis &alias_;
  llvm::DenseMap<const torch::jit::Node *, size_t> order_;
  // By memory:
  std::vector<std::vector<size_t>> heldBy_;
  std::vector<std::optional<std::vector<Life>>> holders_;
  std::vector<std::vector<Life>> unknown_; // values that show it and are no names, in order of
                                           // definition
};

} // namespace pipec
