// Chooses how an inference runs over given stages: the rank of each stage, and the number of
// micro-batches of a batch.
#pragma once

#include "ir/costs/Cluster.h"
#include "ir/schedule/Simulate.h"

namespace pipec {

/// Costs of one micro-batch on a cluster's slowest device. Rank r is on the cluster's device r
/// modulo the number of devices.
struct ForwardProblem {
  Plan plan; // stages and channels; its ranks and micro-batches are ignored
  std::vector<int64_t> stageNs;
  std::vector<int64_t> stageBytes; // memory of a stage on its device; empty: ignored
  Cluster cluster;
  size_t ranks = 1;
  std::vector<size_t> order; // in which a pipeline visits ranks; empty: ascending
  int64_t microBatches = 0;  // 0: to be chosen
  int64_t memoryLimit = 0;   // of every device; 0: the cluster's limits
};

struct ForwardPlan {
  std::vector<size_t> rankOfStage;
  int64_t microBatches = 1;
  int64_t stepNs = 0, lowerBoundNs = 0; // the bound holds for any placement of these stages
  double bubble = 0;                    // of the busiest device, whose ranks take turns
  size_t placements = 0;                // that fit in memory
  double gap() const { return stepNs > 0 ? 1 - double(lowerBoundNs) / double(stepNs) : 0; }
};

/// The costs of `program`, lowered from a schedule of `plan`, on a cluster's devices.
ProgramCosts forwardCosts(const Plan &plan, const Program &program,
                          const std::vector<int64_t> &stageNs, const Cluster &cluster);

/// Tries neighbouring stages on one rank, as balanced as possible, and stages in a loop. If devices
/// differ, tries every order of up to six devices, or the given order of more. The most promising
/// ones are simulated, and the shortest step wins (the first of equals). If the number of
/// micro-batches is not given, it is the least power of two, at most 64, with which the busiest
/// rank idles at most a tenth of the step. Errors: NoPlan if memory does not suffice, with the
/// least that would.
llvm::Expected<ForwardPlan> planForward(const ForwardProblem &problem);

} // namespace pipec
