// The best pipeline for a training, as a user asks for it. Settings that are not given get
// defaults, and the result of the joint search is prepared for reports, pictures and tables.
#pragma once

#include "compiler/planner/JointSearch.h"

#include <map>

namespace pipec {

/// 0, or nothing: not given.
struct TrainingWishes {
  size_t ranks = 0, stages = 0;
  int64_t batch = 0; // samples of a step
  int64_t microBatches = 0;
  int64_t memoryLimit = 0; // of every device, in bytes
  RecomputeWish recompute;
  bool splitBackward = true; // false: as TrainingProblem::splitBackward
  std::optional<Tie::Mode> tied;
  std::map<std::string, Tie::Mode> tiedByName; // of the table's shared weights; has precedence over
                                               // `tied`
  /// The first operators of all stages but the first: the cuts are given. Absent: they are free.
  std::optional<std::vector<size_t>> cuts;
  std::string schedule;          // of a generator
  std::optional<Schedule> table; // the schedule itself: fixes stages, ranks and micro-batches
  std::optional<Cluster> cluster;
  EnoughPlaces enoughPlaces;
};

struct PlannedStage {
  size_t rank = 0, begin = 0, end = 0; // of its operators in the table
  std::string firstModule, lastModule; // empty: no operator belongs to a module
  StageCosts costs;                    // of one micro-batch, on its rank's device
  int64_t weightBytes = 0;
  bool recomputed = false;
};

struct PlannedTraining {
  std::string scheduleName;
  std::vector<PlannedStage> stages;
  std::vector<size_t> boundaries; // the first operators of all stages but the first
  size_t ranks = 1;
  int64_t microBatches = 1, samples = 0; // samples of the largest micro-batch; 0: not known
  std::optional<Tie::Mode> tied;         // mode of weights that several stages read, unless given
                                         // by name; absent: there are none
  std::vector<int64_t> peakBytes;        // per rank, all that it holds
  int64_t stepNs = 0, lowerBoundNs = 0;  // the bound holds for every allowed choice
  bool everyCut = false, complete = true;
  size_t pipelines = 0, schedules = 0; // that were examined
  Schedule schedule;
  Plan plan; // a sketch, with its transfers
  RunShape shape;
  ProgramCosts costs;
  std::vector<int64_t> fixedBytes; // per rank, what it holds all the time
  Program program;
  Timing timing; // of the schedule's actions; its peaks are peakBytes

  double gap() const { return stepNs > 0 ? 1 - double(lowerBoundNs) / double(stepNs) : 0; }
};

/// Ranks: as given, else the cluster's devices, else one per stage. Stages: as given, else one to
/// four per rank. The batch: as given, else two micro-batches of the table's size per rank. Its
/// micro-batches: as many as given. Otherwise no micro-batch is smaller than the table's, because
/// nothing shows the cost of a smaller one. Errors: Usage for a table without a backward, for
/// numbers that contradict each other and for given cuts at illegal places; those of searchJointly.
llvm::Expected<PlannedTraining> planTraining(const CostTable &table, const TrainingWishes &wishes);

/// Changes a plan for `stages` whose backward cannot be split: their I is the whole backward and
/// frees all that F keeps, their W is nothing. Simulates the plan's schedule again. Stages,
/// schedule and bound stay: no rank needs more memory, and no pipeline becomes faster.
llvm::Error keepWhole(llvm::ArrayRef<size_t> stages, PlannedTraining &plan);

} // namespace pipec
