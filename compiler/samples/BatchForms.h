// Which sizes inside a model follow the number of samples, seen by running it with two numbers.
#pragma once

#include "ir/Model.h"
#include "ir/batch/discovery/CutTrial.h"

#include <unordered_map>

namespace torch::jit {
struct Node;
struct Value;
} // namespace torch::jit

namespace pipec {

/// How one value of the graph differs between runs with other numbers of samples.
struct BatchForm {
  std::vector<bool> dims;    // of a tensor, or of any in a list: the size follows the samples
  bool isMask = false;       // a tensor of bools, or a list with one
  bool isScalar = false;     // a tensor without dimensions
  std::optional<Dim> number; // of a whole number, if it is the same in all rounds of a loop
  std::vector<Dim> sizes;    // of a tensor, when it is seen first
  bool isLong = false;       // a list of numbers: how many there are follows the samples
  std::optional<Dim> length; // of such a list, if it is the same in all rounds of a loop

  bool any() const;
  /// Of a tensor: its sizes are known, and none follows the samples.
  bool isFixed() const { return !any() && (isScalar || !sizes.empty()); }
};

/// The forms of all values that ran, also inside branches and loops.
class BatchForms {
public:
  /// Takes the two parts of the trial as arguments. Returns nullopt if the graph does not run
  /// operator by operator.
  static std::optional<BatchForms> of(Model &model, const CutTrial &trial);

  /// A value that did not run has a form without sizes.
  const BatchForm &of(const torch::jit::Value *value) const;
  /// Rows per sample along a dimension; 0: the size does not follow the samples.
  int64_t rowsPerSample(const torch::jit::Value *value, int64_t dim) const;
  /// Floating point operations of the model with one sample, as far as they are counted
  /// (FlopCounter.h).
  int64_t flopsPerSample() const { return flopsPerSample_; }

private:
  struct Seen {                              // of one run
    std::vector<std::vector<int64_t>> sizes; // of each tensor, in order
    std::optional<int64_t> number, length;   // length: of a list of numbers
    bool isMask = false;
  };
  using Run = std::unordered_map<const torch::jit::Value *, std::vector<Seen>>;
  static void note(Run &run, const torch::jit::Value *value, const c10::IValue &content);
  static BatchForm formOf(const std::vector<Seen> &fewer, const std::vector<Seen> &more);
  static Dim between(int64_t fewer, int64_t more);

  // Looked up by pointer only.
  std::unordered_map<const torch::jit::Value *, BatchForm> forms_;
  int64_t flopsPerSample_ = 0;
};

} // namespace pipec
