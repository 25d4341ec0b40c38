// What a cost table says of a training beside times: who reads whose results, which weights are
// trained and shared, where no cut may be.
#pragma once

#include "ir/Model.h"
#include "ir/plan/CostTable.h"

namespace pipec {

/// Fills the table's wiring from the model; `inputs`, one value per argument, show the size of the
/// batch.
void describeTraining(const Model &model, const std::vector<c10::IValue> &inputs, CostTable &table);

} // namespace pipec
