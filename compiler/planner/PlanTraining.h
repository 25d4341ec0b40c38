// The best pipeline for a training as a user asks for it: what was not said gets usual values, and
// the answer of the joint search is laid out for reports, pictures and tables.
#pragma once

#include "compiler/planner/JointSearch.h"

#include <map>

namespace pipec {

/// 0, or nothing: not said.
struct TrainingWishes {
  size_t ranks = 0, stages = 0;
  int64_t batch = 0; // samples of a step
  int64_t microBatches = 0;
  int64_t memoryLimit = 0; // of every device, in bytes
  RecomputeChoice recompute = RecomputeChoice::Auto;
  std::optional<Tie::Mode> tied;
  std::map<std::string, Tie::Mode> tiedByName; // of the table's shared weights: goes before `tied`
  /// Operators that stages but the first begin with: the cuts are given. Nothing: they are free.
  std::optional<std::vector<size_t>> cuts;
  std::string schedule; // of a generator
  std::optional<Cluster> cluster;
};

struct PlannedStage {
  size_t rank = 0, begin = 0, end = 0; // of its operators in the table
  std::string firstModule, lastModule; // empty: none of them belongs to one
  StageCosts costs;                    // of one micro-batch, on its rank's device
  int64_t weightBytes = 0;
  bool recomputed = false;
};

struct PlannedTraining {
  std::string scheduleName;
  std::vector<PlannedStage> stages;
  std::vector<size_t> boundaries; // operators that stages but the first begin with
  size_t ranks = 1;
  int64_t microBatches = 1, samples = 0; // of the largest micro-batch; 0: not known
  std::optional<Tie::Mode> tied;         // of weights that several stages read, where nobody gave
                                         // theirs by name; nothing: there are none
  std::vector<int64_t> peakBytes;        // per rank, everything that it holds
  int64_t stepNs = 0, lowerBoundNs = 0;  // no choice of all that was free is faster
  bool everyCut = false, complete = true;
  size_t pipelines = 0, schedules = 0; // that were looked at
  Schedule schedule;
  Plan plan; // a sketch, with what travels
  RunShape shape;
  Program program;
  Timing timing; // of the schedule's actions; its peaks are peakBytes

  double gap() const { return stepNs > 0 ? 1 - double(lowerBoundNs) / double(stepNs) : 0; }
};

/// Ranks: as said, else the cluster's devices, else one per stage. Stages: as said, else one to
/// four per rank. The batch: as said, else of two micro-batches per rank like the table's; it is
/// cut into as many micro-batches as was said, else none smaller than the table's is tried, since
/// nothing shows what it would cost. Errors: Usage for a table without a backward, for numbers that
/// do not go together and for given cuts where no cut may be; those of searchJointly.
llvm::Expected<PlannedTraining> planTraining(const CostTable &table, const TrainingWishes &wishes);

} // namespace pipec
