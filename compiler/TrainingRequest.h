// Converts the options of a compile to a request for the training planner.
#pragma once

#include "compiler/CompileOptions.h"
#include "compiler/planner/PlanTraining.h"
#include "ir/Model.h"

namespace pipec {

/// The request without cluster and cuts. `table` has the costs of the model's operators; any name
/// of a shared weight finds it.
TrainingWishes trainingWishes(const CompileOptions &options, const Model &model,
                              const CostTable &table);

} // namespace pipec
