// What a compile tells: the plan, its predicted performance, what was proved and tested, notes.
#pragma once

#include "ir/batch/PartSizes.h"
#include "ir/batch/ResultCheck.h"
#include "ir/plan/Plan.h"
#include "passes/PassTimes.h"

#include <memory>
#include <string>
#include <vector>

namespace pipec {

struct PhaseTime {
  std::string name;
  int64_t ns;
};

/// The predicted performance of the pipeline; empty without operator costs.
struct Prediction {
  bool known = false;
  std::vector<int64_t> forwardNs;   // per stage, one micro-batch
  std::vector<int64_t> memoryBytes; // per stage: weights, and the peak of its results; empty: with
                                    // given cuts
  int64_t stepNs = 0;
  double bubble = 0; // of the step
};

/// The quality of an automatic cut.
struct PartitionQuality {
  bool known = false;
  double bottleneckNs = 0; // of the busiest stage, compute and sends
  double lowerBoundNs = 0; // of every cut into this many stages
  size_t moved = 0;        // least number of operators whose place in the order differs from the
                           // program's
  double gap() const { return bottleneckNs > 0 ? 1 - lowerBoundNs / bottleneckNs : 0; }
};

/// The numbers behind the choice of --schedule auto.
struct ScheduleQuality {
  size_t placements = 0;    // placements that fit in memory; 0: not computed
  int64_t stepNs = 0;       // of the best placement, simulated with the cluster's devices and links
  int64_t lowerBoundNs = 0; // of a step, for any placement of these stages; 0: not known
  double bubble = 0;
};

struct PlannedTraining;

/// The content of the compile report.
struct CompileReport {
  Plan plan;
  Prediction prediction;
  PartitionQuality partition;
  ScheduleQuality schedule;
  std::shared_ptr<const PlannedTraining> training; // in Mode::Train, else null
  std::string ranksWhy;  // why there are fewer ranks than stages; empty if --ranks was given
  std::string costTable; // costs of every operator, if they were measured, read or requested
  std::vector<PhaseTime> phases;
  std::vector<PassTime> passes; // in all phases, in order of first run
  int64_t torchFileNs = 0;      // in all phases: LibTorch's own reading and writing of TorchScript
  std::vector<ResultCheck> results; // per output leaf: comparison with the whole batch
  std::vector<PartSizes> partSizes; // of arguments that are trees
  std::string sizeLinks; // how sizes of several examples are linked: "t = dimension 2 of past"
  std::vector<std::string> notes;    // "encoder.pool has no nodes left: cut before encoder.fc"
  std::vector<std::string> warnings; // probable mistakes, and their fixes
  std::vector<std::string> proved;   // properties that validation proved
  std::vector<std::string> tested;   // properties that were only tested by running
  int64_t peakMemoryBytes = 0;
};

} // namespace pipec
