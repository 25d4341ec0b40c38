// Stages that cost more than twice the mean: what is in them, and what can be done.
#pragma once

#include <string>
#include <vector>

namespace pipec {

struct Model;

/// Of a model with legal boundaries and the cost of each operator; without costs it finds nothing.
/// One sentence per stage.
std::vector<std::string> longStageWarnings(const Model &model);

} // namespace pipec
