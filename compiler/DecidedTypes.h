// Which values have the same dtype and rank for every input that a runtime accepts.
#pragma once

#include "ir/Model.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseSet.h"

namespace torch::jit {
struct Block;
struct Node;
struct Value;
} // namespace torch::jit

namespace pipec {

/// One run shows a dtype and a rank of every tensor, but squeeze(), a branch on data or a list of
/// unknown length would show others on other inputs. A value is decided when nothing but dtype and
/// rank of the model's inputs and attributes, and constants, can have made it what it is: of a
/// tensor dtype and rank, of a list its length, of anything else its content. What is not known to
/// be decided is not.
class DecidedTypes {
public:
  explicit DecidedTypes(const Model &model);

  bool holds(torch::jit::Value *value) const;
  /// Judges the results of a node; call it in program order, of an If with a decided condition for
  /// the nodes of the branch that is taken first.
  void visit(torch::jit::Node *node, torch::jit::Block *taken = nullptr);

private:
  bool hasLength(torch::jit::Value *list) const;
  bool decidesResult(torch::jit::Node *node) const;
  bool decidesTensors(torch::jit::Node *node) const;

  llvm::DenseSet<torch::jit::Value *> decided_, lengths_;
  bool ranksChange_ = false; // in place: what was seen of a tensor does not stay true
};

/// An argument that the example leaves None, though it could hold a dict or a list that the model
/// writes, is None from here on: its type becomes NoneType, tests of it fold, and a fact about it
/// is among the obligations. All that might be made of the argument would have to stay in one
/// stage. Where the model's answers are given, they say which arguments these are.
void decideAbsent(Model &model, llvm::ArrayRef<c10::IValue> example);

/// A result that only such an argument could have given is None itself, in the signature too.
void decideAbsentResults(Model &model);

} // namespace pipec
