// Pipelines whose stages are data parallel and tensor parallel as well, with a choice of variants
// (such as recompute) for every node: the problem of "Piper: Multidimensional Planner for DNN
// Parallelization" (Tarnawski et al., NeurIPS 2021). The solution is our own: a threshold search
// over ideals, exact where theirs picks variants by a rule of thumb.
// For pipelines with data-parallel replicas, which pipec does not run yet. No command uses it and
// the installed library does not have it: only tests/bench/bench-piper and
// tests/unit/HybridTest.cpp do, on the published instances.
#pragma once

#include "compiler/planner/Partition.h"

#include <map>
#include <string>
#include <vector>

namespace pipec {

/// One way to run a node on `t` devices.
struct HybridVariant {
  std::string name;
  double time = 0;           // forward and backward of one micro-batch
  double parameterBytes = 0; // per device, synchronised over the data-parallel copies
  double bytesInFlight = 0;  // on a device, per micro-batch in flight
  double fixedBytes = 0;     // on a device
  std::map<uint32_t, double> syncForward, syncBackward; // per neighbour in another stage
};

struct HybridNode {
  int64_t id = 0;
  std::map<uint32_t, std::vector<HybridVariant>> variants; // by tensor-parallel degree
};

struct HybridEdge {
  uint32_t from = 0, to = 0;
  double bytes = 0;
};

struct HybridProblem {
  std::vector<HybridNode> nodes;
  std::vector<HybridEdge> edges;
  int64_t microBatches = 1; // of a step, over all copies
  int64_t devices = 1;
  double memory = kUnlimited; // of a device
  double bandwidth = 1;       // bytes per unit of time
};

/// A stage on dataDegree * tensorDegree devices.
struct HybridStage {
  std::vector<uint32_t> nodes;
  std::vector<uint32_t> variant; // per node of the stage: index into its variants
  int64_t dataDegree = 1;
  uint32_t tensorDegree = 1;
};

struct HybridScore {
  double value = 0;  // time per micro-batch of the slowest stage, with transfers
  double memory = 0; // the most that a device needs
  int64_t devices = 0;
};

struct HybridPlan {
  std::vector<HybridStage> stages; // in pipeline order
  HybridScore score;
  double lowerBound = 0;
  bool proved = false; // the value is the least there is, to 1e-9
  size_t ideals = 0;
};

struct HybridOptions {
  double seconds = kUnlimited;    // by the clock, for benchmarks
  size_t bytes = size_t(1) << 30; // for the ideals
};

/// Stages in an order without edges backwards; data degrees that divide the micro-batches and
/// together are at most as many. With D the data degrees of a stage and of all later ones and d
/// its own, ceil(D / d) micro-batches are in flight. Errors: NoPlan when nothing fits, with the
/// least memory of a device that would do; Usage for a problem that does not hold together, and
/// when there are too many ideals.
llvm::Expected<HybridPlan> planHybrid(const HybridProblem &problem,
                                      const HybridOptions &options = {});

} // namespace pipec
