// A plan of which only the shape matters: stages on ranks, channels, ties. Searches use it to lower
// and simulate pipelines that are not compiled.
#pragma once

#include "ir/plan/Plan.h"

namespace pipec {

/// A plan with stages and without channels.
Plan sketchPlan(const std::vector<size_t> &rankOfStage, Mode mode);

/// Adds a tensor of `bytes` from one stage to others, ascending.
void addChannel(Plan &plan, size_t from, const std::vector<size_t> &consumers, int64_t bytes);

/// Adds a weight that several stages read, ascending. Either the first one owns it and sends it, or
/// each has a copy and the gradients are summed.
void addTie(Plan &plan, const std::vector<size_t> &stages, int64_t bytes, Tie::Mode mode);

} // namespace pipec
