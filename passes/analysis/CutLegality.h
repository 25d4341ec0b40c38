// Where a stage boundary may stand, and why not elsewhere.
#pragma once

#include "passes/analysis/TopLevel.h"

#include <memory>
#include <optional>

namespace pipec {

class AliasAnalysis;

/// A boundary before operator i of the top level (0 < i < size) is legal unless it would separate
/// - an in-place write from the definition or an earlier reader of the memory it writes,
/// - reads and writes of one written attribute or user input, or the old value of an assigned
/// attribute from its new one,
/// - the maker from a user of a value that cannot travel: a string, dict, object, device or future,
/// or one that control flow may leave without a value,
/// - a random operator inside control flow from a later random operator: how many draws happened
/// would not be known.
class CutLegality {
public:
  CutLegality(const Model &model, const TopLevel &top);

  bool legal(size_t boundary) const;
  /// "aten::add_ at model.py:88 in layer1 writes a tensor made by aten::conv2d": why the boundary
  /// is not legal; empty when it is.
  std::string why(size_t boundary) const;
  /// Legal boundaries in ascending order.
  std::vector<size_t> all() const;
  /// Operators across which no other may be moved, ascending: they print, raise an error, or do
  /// what nobody knows.
  const std::vector<size_t> &barriers() const { return barriers_; }
  /// Operators that may draw random numbers, ascending: they stay in this order.
  const std::vector<size_t> &draws() const { return draws_; }
  /// Pairs of operators, the first stays before the second: one of them writes memory that the
  /// other reads or writes. Computed here, for few ask; the graph must be as it was.
  std::vector<std::pair<uint32_t, uint32_t>> writeOrder() const;
  /// Success when `boundaries` cuts find a legal place each. Errors: the refusal too-few-places
  /// with both numbers and what blocks most places.
  llvm::Error enoughFor(size_t boundaries) const;

private:
  struct Blocked {
    size_t from; // boundaries in (from, to] are blocked
    size_t to;
    std::string why;
  };
  void block(size_t from, size_t to, std::string why);
  void blockWrites(const Model &model, const TopLevel &top);
  size_t operatorAt(int64_t position) const;
  void blockState(const Model &model, const TopLevel &top);
  void blockValuesThatStay(const TopLevel &top);
  void blockRandom(const TopLevel &top);
  void noteLargestBlock(const TopLevel &top);
  std::string mainReasons() const;
  size_t indexOf(torch::jit::Node *node, const TopLevel &top) const;

  std::shared_ptr<const AliasAnalysis> alias_;
  size_t operators_;
  std::vector<Blocked> blocked_;
  // Positions of the alias analysis count constants and boundaries too: the first operator at or
  // after each.
  std::vector<size_t> operatorAt_;
  std::vector<size_t> barriers_, draws_;
  std::string largestBlock_;  // control flow with the most operators, in words
  std::vector<size_t> cover_; // how many intervals cover each boundary
};

/// Tensors, numbers, bools, None, and lists, tuples and optionals of these.
bool canTravel(const c10::Type &type);

} // namespace pipec
