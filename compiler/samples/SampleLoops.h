// Loops with a round per sample, and what a round reads of the samples of other rounds.
#pragma once

#include "compiler/samples/BatchForms.h"

#include <unordered_set>

namespace pipec {

struct SampleLoops {
  /// Operators and branches that combine two samples, as `y[i] = y[i - 1]`, or write a value into
  /// all samples because of one. Looked up by pointer only.
  std::unordered_set<const torch::jit::Node *> relating;
  /// Operators in a loop that read only the sample of the round, whatever its sizes depend on.
  std::unordered_set<const torch::jit::Node *> own;
  /// Operators that extend a list for some samples only, as data selects.
  std::unordered_set<const torch::jit::Node *> selecting;
  /// Lists that are extended in each round.
  std::unordered_set<const torch::jit::Value *> extended;
  /// Outputs of a loop's body that carry to the next round a value that elements of a sample
  /// decide.
  std::unordered_set<const torch::jit::Value *> carried;
  /// Loops that end early because of elements of one sample.
  std::unordered_set<const torch::jit::Node *> ended;
};

/// Follows values through loops whose number of rounds depends on the number of samples. The result
/// leaves out what a round does with its own sample: `y[i] = f(x[i])`, a result appended to a list,
/// a branch on one sample that changes only this sample.
SampleLoops sampleLoops(const Model &model, const BatchForms &forms);

/// Whether a loop has a round per sample, or a number of rounds that follows them.
bool loopsOverSamples(const torch::jit::Node *loop, const BatchForms &forms);

} // namespace pipec
