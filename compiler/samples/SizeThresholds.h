// Numbers of samples at which a model may start to compute something else, because it compares
// sizes with constants or with one another.
#pragma once

#include "compiler/samples/BatchForms.h"

namespace pipec {

struct SizeThreshold {
  torch::jit::Node *node;
  std::optional<int64_t> constant; // in the model
  int64_t samples;                 // a batch on one side, with a half on the other
  bool isCondition;                // a branch may follow it, or each row for itself
};

/// Numbers of samples at which conditions change, at which minima, quotients and similar values
/// cease to be linear in the number of samples, and at which slices and parts of fixed sizes end,
/// unless the sizes of the trial show it. Ascending, each number once.
std::vector<SizeThreshold> sizeThresholds(const Model &model, const BatchForms &forms);

} // namespace pipec
