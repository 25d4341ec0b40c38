// Replicas of a pipeline: which trainings can have them.
#pragma once

#include "ir/plan/Plan.h"
#include "runtime/Pipeline.h"

namespace pipec {

constexpr int64_t kMostRanks = 4096; // of all replicas; each is a thread

/// Errors: Usage, naming the first thing that replicas do not go with.
llvm::Error checkReplicas(const Plan &plan, const PipelineOptions &options);

} // namespace pipec
