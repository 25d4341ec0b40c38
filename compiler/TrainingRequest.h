// What the options of a compile say of a training, as its planner takes it.
#pragma once

#include "compiler/Compiler.h"
#include "compiler/planner/PlanTraining.h"
#include "ir/Model.h"

namespace pipec {

/// All but the cluster and the cuts. `table`: what the model's operators cost; its shared weights
/// are found by any of their names.
TrainingWishes trainingWishes(const CompileOptions &options, const Model &model,
                              const CostTable &table);

} // namespace pipec
