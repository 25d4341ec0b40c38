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

struct PassContext;

/// One run shows a dtype and a rank of every tensor, but squeeze(), a branch on data or a list of
/// unknown length would show others for other inputs. A value is decided if it depends only on
/// dtype and rank of the model's inputs and attributes, and on constants. This concerns the dtype
/// and rank of a tensor, the length of a list, and the content of any other value. A value is
/// undecided unless it is known to be decided.
class DecidedTypes {
public:
  explicit DecidedTypes(const Model &model);

  bool holds(torch::jit::Value *value) const;
  /// Judges the results of a node. Call it in program order. For an If with a decided condition,
  /// call it for the nodes of the `taken` branch first.
  void visit(torch::jit::Node *node, torch::jit::Block *taken = nullptr);

private:
  bool hasLength(torch::jit::Value *list) const;
  bool decidesResult(torch::jit::Node *node) const;
  bool decidesTensors(torch::jit::Node *node) const;

  llvm::DenseSet<torch::jit::Value *> decided_, lengths_;
  bool ranksChange_ = false; // in place: the form seen of a tensor does not stay
};

/// Handles an argument that the example leaves None although it could hold a dict or a list that
/// the model writes. From here on it is None: its type becomes NoneType, tests of it fold, and the
/// obligations get a fact about it. Otherwise all values made from the argument would have to stay
/// in one stage. If the context has given answers, they name these arguments.
void decideAbsent(Model &model, PassContext &context, llvm::ArrayRef<c10::IValue> example);

/// A result that only such an argument could provide is None itself, in the signature too.
void decideAbsentResults(Model &model);

} // namespace pipec
