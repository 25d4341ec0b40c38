// Weights whose uses in a loop and elsewhere have gradients in one order only.
#pragma once

#include "ir/Model.h"

#include <string>

namespace pipec {

/// Why the backward of `stage` is never split, whatever its examples show; empty: nothing known.
///
/// If a weight has uses in the body of a loop and others, its gradient adds the iterations and the
/// other uses one by one. A leaf per use, as a split backward needs, adds the iterations to each
/// other first. An example with one iteration does not show this, a later batch may.
std::string usesBesideALoop(const Stage &stage);

} // namespace pipec
