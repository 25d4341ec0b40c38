// Operators that look at several samples of a batch at once, and the results and branches that they
// reach.
#pragma once

#include "compiler/samples/BatchForms.h"

namespace pipec {

/// What was found, in program order, each operator once.
struct SampleRelations {
  /// Operators that reach each result: reductions, scans and selections over the samples.
  std::vector<std::vector<torch::jit::Node *>> reaching;
  /// Per result: averages over as many elements as data selects (cross_entropy with ignored labels,
  /// a masked mean). Averages of micro-batches are then no average of the whole batch.
  std::vector<std::vector<torch::jit::Node *>> averages;
  /// Per result: operators that are not linear (relu, clamp, elu, a loss), of a value over samples.
  /// The mean of their results is not the result of the mean.
  std::vector<std::vector<torch::jit::Node *>> bends;
  /// A branch or loop with an operator over the samples that it depends on. Branches that only
  /// refuse inputs are left out, and so are those that only skip a write for which nothing is
  /// selected.
  std::vector<std::pair<torch::jit::Node *, torch::jit::Node *>> branches;
};

/// Follows the values of the graph from operators that reduce, scan or sort along a dimension that
/// follows the samples. An index that only reorders or selects rows relates no samples, unless
/// something is cut off by it.
SampleRelations sampleRelations(const Model &model, const BatchForms &forms);

} // namespace pipec
