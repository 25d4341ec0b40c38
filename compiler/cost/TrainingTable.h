// The part of a cost table for a training, beside times: which operator reads which results, which
// weights are trained and shared, and where cuts are illegal.
#pragma once

#include "ir/Model.h"
#include "ir/costs/CostTable.h"

namespace pipec {

/// Fills the table's wiring from the model. `inputs`, one value per argument, show the size of the
/// batch.
void describeTraining(const Model &model, const std::vector<c10::IValue> &inputs, CostTable &table);

} // namespace pipec
