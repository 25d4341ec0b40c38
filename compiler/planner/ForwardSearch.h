// How to run an inference over stages that are cut: which rank has which stage, and into how many
// micro-batches a batch goes.
#pragma once

#include "ir/plan/Cluster.h"
#include "ir/schedule/Simulate.h"

namespace pipec {

/// Costs of one micro-batch as a cluster's least device would have them; rank r is the cluster's
/// device r, round and round.
struct ForwardProblem {
  Plan plan; // stages, channels; its ranks and micro-batches do not matter
  std::vector<int64_t> stageNs;
  std::vector<int64_t> stageBytes; // that a stage needs on its device; empty: not looked at
  Cluster cluster;
  size_t ranks = 1;
  std::vector<size_t> order; // in which a pipeline visits ranks; empty: as they are numbered
  int64_t microBatches = 0;  // 0: to be chosen
  int64_t memoryLimit = 0;   // of every device; 0: as the cluster says
};

struct ForwardPlan {
  std::vector<size_t> rankOfStage;
  int64_t microBatches = 1;
  int64_t stepNs = 0, lowerBoundNs = 0; // no placement of these stages makes a shorter step
  double bubble = 0;                    // of the busiest device, whose ranks take turns
  size_t placements = 0;                // that fit into the memory
  double gap() const { return stepNs > 0 ? 1 - double(lowerBoundNs) / double(stepNs) : 0; }
};

/// What `program`, lowered from a schedule of `plan`, costs on a cluster's devices.
ProgramCosts forwardCosts(const Plan &plan, const Program &program,
                          const std::vector<int64_t> &stageNs, const Cluster &cluster);

/// Neighbouring stages on one rank, as balanced as can be, or stages in a loop; for devices that
/// differ every order of up to six of them, of more the given one. Of those that promise most the
/// shortest simulated step wins; of equal ones the first. A number of micro-batches that nobody
/// gave is the least power of two, at most 64, with which the busiest rank waits for at most a
/// tenth of the step. Errors: NoPlan when memory does not do, with the least that would.
llvm::Expected<ForwardPlan> planForward(const ForwardProblem &problem);

} // namespace pipec
