// What the rules of fold-constants share: the worklist, replacement of values by constants, and the
// facts that were relied on.
#pragma once

#include "llvm/ADT/DenseSet.h"
#include "passes/analysis/AliasAnalysis.h"

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

#include <map>

namespace pipec {

/// Defined in FoldConstants.cpp.
class Folding {
public:
  using Node = torch::jit::Node;
  using Value = torch::jit::Value;
  using Block = torch::jit::Block;

  explicit Folding(Model &model);

  /// Applies `rule` to every node until it finds nothing more; the rule returns true when it
  /// changed something.
  bool runToFixpoint(llvm::function_ref<bool(Node *)> rule);

  /// All uses of `old` become uses of `by`, whose users are looked at again. False (and nothing
  /// done) without uses.
  bool replace(Value *old, Value *by);
  /// One use becomes a use of `by`, and the user is looked at again.
  void replaceUse(torch::jit::Use use, Value *by);
  /// The same as replace, with a new constant before the node of `old`.
  bool replaceByConstant(Value *old, const c10::IValue &constant);
  /// The value turned out to be of a narrower type: its users are looked at again.
  void refine(Value *value, const c10::TypePtr &type);
  void lookAgain(Node *node) { push(node); }
  /// Destroys a node and everything in its blocks.
  void destroy(Node *node);

  /// The value of a constant, never of a tensor.
  static std::optional<c10::IValue> constant(const Value *value);
  static std::optional<int64_t> constantInt(const Value *value);

  /// The node of this kind that made the list or dict, when nothing ever changes it.
  Node *fixedContainer(Value *value, c10::Symbol kind) const;
  bool isWritten(const Value *value) const { return alias_.isWritten(value); }
  bool mayBeSeenOutside(const Value *value) const;

  /// Of a tensor, as types promise it or as it was given.
  std::optional<int64_t> rankOf(const Value *tensor) const;
  std::optional<c10::ScalarType> dtypeOf(const Value *tensor) const;
  /// A rank or dtype that the model's rewriting rests on: inputs are checked for it again.
  void relyOn(const Value *value, const std::string &property, const std::string &is);

  Model &model() { return model_; }

private:
  /// A fold that rests on a fact counts as a question of remove-inplace's next run, see
  /// ir/TypeAnswers.h: numbered from here on by the step and by which value of the fact it was.
  static constexpr size_t kFirstFold = size_t(1) << 23, kMostValues = 4;
  static std::optional<size_t> foldNumber(size_t step, size_t which) {
    if (which >= kMostValues || step >= kFirstFold / kMostValues)
      return std::nullopt;
    return kFirstFold + step * kMostValues + which;
  }
  std::optional<std::string> givenFact(const Value *value, const std::string &property) const;
  /// Which of the values that were noted for the same property it is; a new one is the last.
  size_t noteFact(const Obligation &fact);
  void push(Node *node);
  void pushUser(Node *user);
  void pushUsers(Value *value);
  void pushAll(Block *block);
  void forget(Block *block);

  Model &model_;
  AliasAnalysis alias_;
  std::vector<Node *> work_;
  llvm::DenseSet<Node *> queued_, gone_;
  const size_t run_; // of remove-inplace next
  const bool foldsAreNoted_;
  size_t step_ = 0;
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> facts_,
      given_; // by value and property
};

/// The node's result for these arguments, where it may be computed at compile time: operators of
/// LibTorch on numbers, strings and None that have no effect.
std::optional<c10::IValue> computedFor(const Folding &folding, torch::jit::Node *node,
                                       torch::jit::Stack arguments); // FoldConstants.cpp

/// The rules; each returns true when it changed something.
bool foldOperator(Folding &folding, torch::jit::Node *node);     // FoldConstants.cpp
bool foldTypeTest(Folding &folding, torch::jit::Node *node);     // FoldRules.cpp
bool foldContainer(Folding &folding, torch::jit::Node *node);    // FoldRules.cpp
bool foldControl(Folding &folding, torch::jit::Node *node);      // FoldRules.cpp
bool foldSurroundings(Folding &folding, torch::jit::Node *node); // FoldSurroundings.cpp

} // namespace pipec
