// A plan of which only the shape matters: stages on ranks, channels, ties. For searches, which
// lower and simulate pipelines that nobody has compiled.
#pragma once

#include "ir/plan/Plan.h"

namespace pipec {

/// Stages without channels.
Plan sketchPlan(const std::vector<size_t> &rankOfStage, Mode mode);

/// A tensor of `bytes` from one stage to others, ascending.
void addChannel(Plan &plan, size_t from, const std::vector<size_t> &consumers, int64_t bytes);

/// A weight that several stages read, ascending: the first one owns it and sends it, or each has a
/// copy and the gradients are summed.
void addTie(Plan &plan, const std::vector<size_t> &stages, int64_t bytes, Tie::Mode mode);

} // namespace pipec
