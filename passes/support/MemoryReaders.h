// What else shows a memory that is about to be written as a new value, and when: values that are no
// names of the tensor, and lists, tuples and objects that may hold it.
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

/// Of one model while it is changed: new nodes take the place of old ones.
class MemoryReaders {
public:
  MemoryReaders(const Model &model, const AliasAnalysis &alias);

  void placeAs(const torch::jit::Node *made, const torch::jit::Node *old);
  void forget(const torch::jit::Node *made) { order_.erase(made); }

  /// A value that shows the memory and is no name; in order of definition.
  void note(size_t memory, const torch::jit::Value *value);

  /// The memory of a tensor that `maker` made, before `writer` and afterwards.
  bool see(size_t memory, const torch::jit::Node *maker, const torch::jit::Node *writer);

  /// Of each memory what may hold it.
  const std::vector<std::vector<size_t>> &heldBy() const { return heldBy_; }

private:
  /// When a value is made and when it is used last, in the numbers of order_.
  struct Life {
    size_t made, used;
  };

  /// In order of execution; a node with blocks comes after them, as its results do.
  void number(torch::jit::Block *block, size_t &next);
  size_t orderOf(const torch::jit::Node *node) const;
  /// The last use; in a loop around it, where the value comes from outside, the next round uses it
  /// too.
  Life lifeOf(const torch::jit::Value *value) const;
  /// Lists, tuples and objects that may hold the memory, at any depth.
  llvm::ArrayRef<Life> holdersOf(size_t memory);

  const AliasAnalysis &alias_;
  llvm::DenseMap<const torch::jit::Node *, size_t> order_;
  // By memory:
  std::vector<std::vector<size_t>> heldBy_;
  std::vector<std::optional<std::vector<Life>>> holders_;
  std::vector<std::vector<Life>> unknown_; // what shows it and is no name, in order of definition
};

} // namespace pipec
