// The common part of the rules of fold-constants: the worklist, replacement of values by constants,
// and the facts that folds rely on.
#pragma once

#include "llvm/ADT/DenseSet.h"
#include "passes/analysis/AliasAnalysis.h"
#include "passes/support/OperatorNames.h"

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

#include <set>

namespace pipec {

/// Members about facts are defined in FoldingFacts.cpp.
class Folding {
public:
  using Node = torch::jit::Node;
  using Value = torch::jit::Value;
  using Block = torch::jit::Block;

  Folding(Model &model, PassContext &context);

  /// Applies `rule` to every node until it changes nothing more. The rule returns true if it
  /// changed something.
  bool runToFixpoint(llvm::function_ref<bool(Node *)> rule);

  /// Replaces all uses of `old` by `by` and queues their users again. Returns false and does
  /// nothing if there are no uses.
  bool replace(Value *old, Value *by);
  /// Replaces one use by `by` and queues its user again.
  void replaceUse(torch::jit::Use use, Value *by);
  /// Like replace, with a new constant before the node of `old`.
  bool replaceByConstant(Value *old, const c10::IValue &constant);
  /// Narrows the type of the value and queues its users again.
  void refine(Value *value, const c10::TypePtr &type);
  void lookAgain(Node *node) { push(node); }
  /// Destroys a node and everything in its blocks.
  void destroy(Node *node);

  /// The value of a constant, never of a tensor.
  static std::optional<c10::IValue> constant(const Value *value);

  /// The node of this kind that made the list or dict, if no node ever changes it.
  Node *fixedContainer(Value *value, c10::Symbol kind) const;
  bool isWritten(const Value *value) const { return alias_->isWritten(value); }
  bool mayBeSeenOutside(const Value *value) const;

  /// The rank of a tensor by its type, or as given.
  std::optional<int64_t> rankOf(const Value *tensor) const;
  std::optional<c10::ScalarType> dtypeOf(const Value *tensor) const;
  /// Records a rank or dtype that the rewrite relies on. The runtime checks inputs for it.
  void relyOn(const Value *value, const std::string &property, const std::string &is);

  // The operators that ask for a rank or dtype are noted beside the values: remove-inplace may
  // give the operand of such an operator another name later.

  std::optional<int64_t> givenRank(Node *asker) const;
  std::optional<c10::ScalarType> givenDtype(Node *asker) const;
  void noteAnswer(Node *asker, const std::string &property,
                  const std::optional<std::string> &answer);

  Model &model() { return model_; }

private:
  /// The answers of the types at the time when the given answers were noted.
  std::optional<std::string> given(const Value *value, const std::string &property) const;
  std::optional<std::string> given(const TypeQuestion &question) const;
  /// Notes what types tell where the notes so far would say something else.
  void noteOther(const TypeQuestion &question, const std::string &seen) const;
  TypeQuestion question(const Value *value, const std::string &property) const;
  void push(Node *node);
  void pushUser(Node *user);
  void pushUsers(Value *value);
  void pushAll(Block *block);
  void forget(Block *block);

  Model &model_;
  TypeAnswers &answers_;
  std::shared_ptr<const AliasAnalysis> alias_;
  std::vector<Node *> work_;
  llvm::DenseSet<Node *> queued_, gone_;
  mutable OperatorNames names_;
  std::set<std::string> facts_; // among the obligations
};

} // namespace pipec
