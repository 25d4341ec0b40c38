// Where an automatic cut is best: the model given to the partitioner.
#pragma once

#include "ir/Model.h"
#include "ir/plan/Cluster.h"
#include "ir/plan/Plan.h"

namespace pipec {

/// A device of a cluster whose devices differ.
struct CutDevice {
  double slowness = 1;     // how much longer a stage takes there than its costs say; at most 1
  int64_t memoryLimit = 0; // bytes of a stage; 0: none
  bool operator==(const CutDevice &) const = default;
};

struct CutRequest {
  size_t stages = 1;
  ClusterLink link;        // between stages
  int64_t memoryLimit = 0; // bytes of a stage; 0: none
  /// Where devices differ, and there is one for each stage. Where no cut for them is found, or this
  /// is empty, all stages are planned for what is said above.
  std::vector<CutDevice> devices;
  /// Devices or links differ: no cut beats the fastest device, with nothing to send.
  bool unlike = false;
  double fastest = 1; // slowness of the fastest device
  double effort = 1;  // of the search over orders: seconds, as an idle machine needs them
};

struct CutPlan {
  std::vector<size_t> order;       // of the operators of the top level; empty: as the program has
                                   // them
  std::vector<size_t> deviceOf;    // per stage, an index into the request's devices; empty: any
  std::vector<size_t> boundaries;  // the cut is before these operators of that order
  double bottleneckNs = 0;         // the busiest stage, computing and sending
  double lowerBoundNs = 0;         // of every cut into as many stages, in any order of operators
  std::vector<int64_t> stageNs;    // per stage: one micro-batch
  std::vector<int64_t> stageBytes; // per stage: as StageMemory has it
  Plan sketch;                     // the stages, each on a rank of its own, and what goes between
};

/// Of the cuts in every order of operators that computes the same (see OperatorOrder) the one with
/// the least busy stage, from model.nodeCosts, under the memory limit, as far as the effort goes;
/// program order wins when it is as good within 1 %, and a cut whose other stages are more even
/// when its busiest is as good within 2 %. The same on every run. Errors: NoPlan when there are too
/// few places, or with the least memory that would do: in program order, or in that of the shortest
/// or smallest stages.
llvm::Expected<CutPlan> planCuts(const Model &model, const CutRequest &request);

} // namespace pipec
