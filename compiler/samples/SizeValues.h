// Values that a model computes from sizes alone, at any number of samples.
#pragma once

#include "compiler/cost/NodeRunner.h"
#include "compiler/samples/BatchForms.h"

namespace pipec {

/// The graph and the forms must outlive it. One thread at a time.
class SizeValues {
public:
  explicit SizeValues(const BatchForms &forms) : forms_(forms) {}

  static constexpr int64_t kMostRows = 4096;

  /// Whether `value` is a number, a bool, a list of numbers, a tensor of at most one dimension or
  /// one with few elements per sample that operators make from sizes and constants alone, at least
  /// one of which follows the samples.
  bool follows(const torch::jit::Value *value) { return kindOf(value) == Kind::Follows; }
  /// With follows(): whether it is more than a sum of multiples of sizes, as max(a, b) or a // b.
  bool bends(const torch::jit::Value *value);
  /// With follows(). nullopt: the operators refuse that number.
  std::optional<c10::IValue> at(const torch::jit::Value *value, int64_t samples);

  /// The dimension of a tensor along which it has rows per sample: 0 of torch.arange(n) < 100.
  std::optional<int64_t> rowsAlong(const torch::jit::Value *value) const;
  bool hasRows(const torch::jit::Value *value) const { return rowsAlong(value).has_value(); }
  /// Whether such a tensor is `value`, or on the way to it: at() then knows it up to kMostRows.
  bool isMadeOfRows(const torch::jit::Value *value);

private:
  enum class Kind { Other, Constant, Follows };
  Kind kindOf(const torch::jit::Value *value, int steps = 64);
  Kind kindOfSize(const torch::jit::Value *value) const;
  Kind kindOfOperator(const torch::jit::Value *value, int steps);
  /// Whether a cast rounds numbers that follow the samples, as (arange(n) / 200).long().
  bool becomesInteger(const torch::jit::Value *value);
  c10::IValue compute(const torch::jit::Value *value);
  c10::IValue sizeAt(const torch::jit::Value *value) const;

  const BatchForms &forms_;
  NodeRunner runner_;
  int64_t samples_ = 0; // of computed_
  // Looked up by pointer only.
  std::unordered_map<const torch::jit::Value *, Kind> kinds_;
  std::unordered_map<const torch::jit::Value *, bool> bends_, ofRows_;
  std::unordered_map<const torch::jit::Value *, c10::IValue> computed_;
  std::unordered_map<const torch::jit::Node *, PreparedNode> prepared_;
};

} // namespace pipec
