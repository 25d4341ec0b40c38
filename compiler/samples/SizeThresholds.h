// Numbers of samples at which a model may start to compute something else, because it compares
// sizes with constants.
#pragma once

#include "compiler/samples/BatchForms.h"

namespace pipec {

struct SizeThreshold {
  torch::jit::Node *node;
  int64_t constant; // in the model
  int64_t samples;  // a batch on one side, whose halves are on the other
};

/// Comparisons, minima, divisions and slices by constants that the sizes of the trial do not show,
/// by ascending number of samples, each number once.
std::vector<SizeThreshold> sizeThresholds(const Model &model, const BatchForms &forms);

} // namespace pipec
