// Stages that cost more than twice the mean, or nothing: their content, and possible remedies.
#pragma once

#include "ir/NodeCost.h"

#include <string>
#include <vector>

namespace pipec {

struct Model;

/// Returns one sentence per stage that costs more than twice the mean, and one for all stages
/// without cost, of a model with legal boundaries and operator costs. Without costs it finds none.
/// `byCost`: costs have chosen the boundaries, so no other ones are advised.
std::vector<std::string> longStageWarnings(const Model &model, const std::vector<NodeCost> &costs,
                                           bool byCost);

} // namespace pipec
