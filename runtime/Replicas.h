// Replicas of a pipeline: which trainings can have them, and how many fit.
#pragma once

#include "ir/plan/Plan.h"
#include "runtime/Pipeline.h"

namespace pipec {

constexpr int64_t kMostRanks = 4096; // of all replicas; each is a thread

/// As many whole pipelines of `ranks` ranks as this process has cores for, with `threads` threads
/// per rank (0: one); or as there are `devices` for, if these are several or no CPU. At least 1.
int64_t replicasThatFit(size_t ranks, const std::vector<std::string> &devices, int threads);

/// The number of replicas of a plan whose stages are placed. Errors: Usage, naming the first thing
/// that several replicas do not go with.
llvm::Expected<int64_t> replicasOf(const Plan &plan, const PipelineOptions &options);

} // namespace pipec
