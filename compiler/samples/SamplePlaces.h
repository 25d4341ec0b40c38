// Operators that take rows of other samples by their place in the batch alone.
#pragma once

#include "compiler/samples/SizeValues.h"

namespace pipec {

/// Whether rows are moved along the samples: by a padding, or by an index that is made from sizes,
/// as `x[(torch.arange(n) - 1).clamp(min=0)]`. An index that gives each sample its own rows, once
/// or several times, moves none.
bool movesSamples(torch::jit::Node *node, const BatchForms &forms, SizeValues &sizes);

} // namespace pipec
