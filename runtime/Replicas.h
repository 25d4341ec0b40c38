// Replicas of a pipeline: which trainings can have them.
#pragma once

#include "ir/plan/Plan.h"
#include "runtime/Pipeline.h"

namespace pipec {

/// Errors: Usage, naming the first thing that replicas do not go with.
llvm::Error checkReplicas(const Plan &plan, const PipelineOptions &options);

} // namespace pipec
