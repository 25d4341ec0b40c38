// Finds the best automatic cut: poses the model as a partition problem.
#pragma once

#include "ir/Model.h"
#include "ir/NodeCost.h"
#include "ir/costs/Cluster.h"
#include "ir/plan/Plan.h"

namespace pipec {

/// A device of a cluster with different devices.
struct CutDevice {
  double slowness = 1;     // factor for the costs of a stage on this device; at most 1
  int64_t memoryLimit = 0; // bytes of a stage; 0: none
  bool operator==(const CutDevice &) const = default;
};

struct CutRequest {
  size_t stages = 1;
  ClusterLink link;        // between stages
  int64_t memoryLimit = 0; // bytes of a stage; 0: none
  /// The devices, if they differ and there is one for each stage. If this is empty or no cut for
  /// them is found, all stages are planned for the limits above.
  std::vector<CutDevice> devices;
  /// True if devices or links differ: the bound is then the fastest device with nothing to send.
  bool unlike = false;
  double fastest = 1; // slowness of the fastest device
};

struct CutPlan {
  std::vector<size_t> order;       // of the top-level operators; empty: program order
  std::vector<size_t> deviceOf;    // per stage, an index into the request's devices; empty: any
  std::vector<size_t> boundaries;  // the cut is before these operators of that order
  double bottleneckNs = 0;         // the busiest stage, compute and sends
  double lowerBoundNs = 0;         // of every cut into this many stages, in any order of operators
  std::vector<int64_t> stageNs;    // per stage: one micro-batch
  std::vector<int64_t> stageBytes; // per stage, by StageMemory
  Plan sketch;                     // the stages, one per rank, and their channels
};

/// Chooses, over all equivalent orders of operators (see OperatorOrder), the cut with the least
/// busy stage by `costs` and under the memory limit, as far as a second of search goes. Program
/// order wins if it is at most 1 % worse, and a cut with more even stages if its busiest is at most
/// 2 % worse. The result is the same on every run. Errors: NoPlan if there are too few places, or
/// with the least memory that would suffice: in program order, or in the order of the shortest or
/// smallest stages.
llvm::Expected<CutPlan> planCuts(const Model &model, const std::vector<NodeCost> &costs,
                                 const CutRequest &request);

} // namespace pipec
