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

/// Where conditions change, where minima, quotients and the like stop to follow the samples evenly,
/// and where slices and parts of fixed sizes end, unless the sizes of the trial show it. By
/// ascending number of samples, each number once.
std::vector<SizeThreshold> sizeThresholds(const Model &model, const BatchForms &forms);

} // namespace pipec
