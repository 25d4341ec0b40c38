// Operators that differ only in the elements of their tensors, such as those of equal layers: one
// may run for all of them.
#pragma once

#include "compiler/cost/FlopCounter.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseSet.h"

#include <ATen/core/stack.h>

#include <optional>
#include <string>
#include <unordered_map>

namespace torch::jit {
struct Node;
struct Value;
} // namespace torch::jit

namespace pipec {

struct TopLevel;

/// The operators that ran so far. An operator on tensors of fractions gets the results of an
/// earlier one of the same kind on tensors of the same form: their dtypes, sizes and strides are
/// right, and their elements are not. Holds at most 256 MiB of results.
class EqualOperators {
public:
  struct Known {
    torch::jit::Stack results;
    Arithmetic work;
    int64_t ns = 0;
  };

  /// Whether no operator writes, draws or prints.
  static bool suits(const TopLevel &top);

  /// Whether wrong elements in the inputs could change the form of the node's results: it made
  /// anything other than floating-point tensors, and did not read only the form of its inputs.
  bool needsElements(torch::jit::Node *node, llvm::ArrayRef<torch::jit::Value *> used,
                     const torch::jit::Stack &results) const;

  /// Equal for equal operators; nothing if the results could have other forms for other elements.
  static std::optional<std::string> keyOf(torch::jit::Node *node, const torch::jit::Stack &inputs);
  /// Null: none ran yet.
  const Known *find(const std::string &key) const;
  void keep(const std::string &key, Known known);

  /// Notes that the values that the node makes have wrong elements.
  void borrow(torch::jit::Node *node);
  /// The same if any of the used values has wrong elements.
  void follow(torch::jit::Node *node, llvm::ArrayRef<torch::jit::Value *> used);

private:
  bool anyBorrowed(llvm::ArrayRef<torch::jit::Value *> used) const;

  std::unordered_map<std::string, Known> known_; // looked up only
  llvm::DenseSet<torch::jit::Value *> borrowed_;
  int64_t bytes_ = 0;
};

} // namespace pipec
