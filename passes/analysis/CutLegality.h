// Where a stage boundary may stand, and the reason where it may not.
#pragma once

#include "passes/analysis/TopLevel.h"

#include <memory>

namespace pipec {

class AliasAnalysis;

/// A boundary before operator i of the top level (0 < i < size) is legal unless it would separate
/// - an in-place write from the definition or an earlier reader of the memory that it writes,
/// - reads and writes of one written attribute or user input, or the old value of an assigned
///   attribute from its new one,
/// - the maker from a user of a value that cannot travel: a string, dict, object, device or future,
///   or a value that control flow may leave unset,
/// - a random operator inside control flow from a later random operator, because the number of
///   draws would be unknown.
class CutLegality {
public:
  CutLegality(const Model &model, const TopLevel &top);

  bool legal(size_t boundary) const;
  /// The reason why the boundary is not legal, as "aten::add_ at model.py:88 in layer1 writes a
  /// tensor made by aten::conv2d"; empty if it is legal.
  std::string why(size_t boundary) const;
  /// Legal boundaries in ascending order.
  std::vector<size_t> all() const;
  /// Operators that no other operator may cross, ascending: they print, raise an error, or have
  /// unknown effects.
  const std::vector<size_t> &barriers() const { return barriers_; }
  /// Operators that may draw random numbers, ascending. They stay in this order.
  const std::vector<size_t> &draws() const { return draws_; }
  /// Pairs of operators whose first must stay before the second, because one of them writes memory
  /// that the other reads or writes. Computed on each call, because calls are rare. The graph must
  /// be unchanged.
  std::vector<std::pair<uint32_t, uint32_t>> writeOrder() const;
  /// Checks that there is a legal place for each of `boundaries` cuts. Errors: the refusal
  /// too-few-places with both numbers, the reasons that block most places and what to change.
  llvm::Error enoughFor(size_t boundaries) const;

private:
  struct Blocked {
    size_t from; // boundaries in (from, to] are blocked
    size_t to;
    std::string why;
    llvm::StringRef advice; // what an author can change, of static memory
  };
  void block(size_t from, size_t to, std::string why, llvm::StringRef advice);
  void blockWrites(const Model &model, const TopLevel &top);
  size_t operatorAt(int64_t position) const;
  void blockState(const Model &model, const TopLevel &top);
  void blockValuesThatStay(const TopLevel &top);
  void blockRandom(const TopLevel &top);
  void noteLargestBlock(const TopLevel &top);
  std::vector<Blocked> longest() const;
  std::string mainReasons() const;
  std::string mainAdvice() const;
  size_t indexOf(torch::jit::Node *node, const TopLevel &top) const;

  std::shared_ptr<const AliasAnalysis> alias_;
  size_t operators_;
  std::vector<Blocked> blocked_;
  // By position of the alias analysis, which also counts constants and boundaries: the first
  // operator at or after it.
  std::vector<size_t> operatorAt_;
  std::vector<size_t> barriers_, draws_;
  std::string largestBlock_;  // control flow with the most operators, in words
  std::vector<size_t> cover_; // how many intervals cover each boundary
};

/// True for tensors, numbers, bools, None, and lists, tuples and optionals of these.
bool canTravel(const c10::Type &type);

} // namespace pipec
