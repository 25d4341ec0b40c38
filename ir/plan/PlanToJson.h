// A plan as the text of plan.json.
#pragma once

#include "ir/plan/Plan.h"

namespace pipec {

/// The bytes of plan.json: keys sorted, two-space indent, short values on one line, a final
/// newline. Needs a plan that verify() accepts.
std::string toJson(const Plan &plan);

/// The text of Normalisation::training: saved, true or false.
std::string trainingFlagsText(std::optional<bool> training);

} // namespace pipec
