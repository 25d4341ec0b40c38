// What a caller of the compiler chooses: the cuts, the example, the checks, the schedule.
#pragma once

#include "compiler/Progress.h"
#include "compiler/planner/RecomputeWish.h"
#include "ir/plan/Plan.h"
#include "passes/CutSource.h"

#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace pipec {

/// The fields of a top-level node of the flat graph that a cut predicate gets.
struct NodeView {
  std::string op;         // "aten::linear"
  std::string modulePath; // "encoder.layers.3.fc1"
  size_t index;           // position in program order
};
struct AtModule {
  std::string name;
};                  // before the first node of a module; "NAME#2": of its second call
struct AtMarker {}; // at every pipe_split of the model
using CutPredicate =
    std::function<bool(const NodeView &)>; // before each node for which it returns true
using Cut = std::variant<AtModule, AtMarker, CutPredicate>;

enum class Verify { None, Graph, Run };

/// The value that the modules' training flags are folded to.
enum class TrainingFlag { Saved, False, True };

/// The cost of operators: operation counts and the rates of devices, the same on every run; times
/// on this machine; a table of --emit-costs.
struct AnalyticCosts {};
struct MeasuredCosts {};
struct CostFile {
  std::string path;
};
using CostSource = std::variant<AnalyticCosts, MeasuredCosts, CostFile>;

/// Stages per rank, ranks of stages and the number of micro-batches are chosen where not given.
struct AutoSchedule {};
/// For Mode::Train: a generator. Numbers that it leaves free are chosen.
struct NamedSchedule {
  std::string name;
};
/// For Mode::Infer: a table of forward actions. It also sets ranks of stages and micro-batches.
struct ScheduleTable {
  std::string csv;
};
using ScheduleChoice = std::variant<AutoSchedule, NamedSchedule, ScheduleTable>;

struct CompileOptions {
  size_t stages = 0; // 0: determined by the cuts
  std::vector<Cut> cuts;
  std::optional<CutSource> split; // nullopt: At if named, else Markers if there are some, else Auto
  bool nearest = false; // a given cut that is not possible at its place moves to the nearest
                        // place where it can, with a warning; else it is an error
  std::string inputs;   // values file or description of one micro-batch; empty: none
  std::vector<std::string> moreInputs; // further examples: sizes that differ from the first one's
                                       // vary
  std::string method = "forward";
  std::vector<std::pair<std::string, std::optional<int64_t>>> batchDims; // by argument
  // or part of it ("batch.mask", "xs.0"); nullopt: every micro-batch gets it whole
  /// Merge rules of results by their paths in the report, where the example does not show the
  /// right rule.
  std::vector<std::pair<std::string, MergeRule>> merges;
  std::vector<std::pair<std::string, Tie::Mode>> tied; // name "" is the default for all
  Mode mode = Mode::Infer; // Train: cuts and all else are planned for training
  /// For Mode::Train: a file with a module whose forward takes the model's results and then
  /// targets, and returns the loss. It becomes a part of the model; empty: the model returns its
  /// loss.
  std::string loss;
  std::string
      lossOutput; // of Mode::Train: path of the result that is the loss; empty: the only one
  /// Of Mode::Train: the artifact also has stages of the same model in eval mode, with weights of
  /// their own on disk, for Pipeline::evaluate.
  bool evaluation = false;
  bool planOnly = false; // of Mode::Train: a model without a loss can be planned, not saved
  TrainingFlag trainingFlag = TrainingFlag::Saved;
  std::vector<std::string> keepEval;
  Verify verify = Verify::Graph;
  /// nullopt: measured for automatic cuts where all devices are CPUs, else analytic.
  std::optional<CostSource> cost;
  std::string cluster;      // a file, see docs/cluster.md; empty: a CPU core per rank
  int64_t costBudgetNs = 0; // for measured costs; 0: ten seconds
  bool listCosts = false;   // fill CompileReport::costTable also where costs were only counted
  int64_t memoryLimit = 0;  // bytes of a stage; 0: as the cluster says
  int64_t microBatches = 0; // 0: number of stages
  size_t ranks = 0;         // 0: one per stage; by measured costs at most one per core, or as
                            // many as the cluster has devices
  /// The artifact's default schedule. nullopt: forward-only, in Mode::Train as AutoSchedule.
  std::optional<ScheduleChoice> schedule;
  int64_t batch = 0;       // of Mode::Train: samples of a step; 0: see planTraining
  RecomputeWish recompute; // of Mode::Train
  /// Of Mode::Train: false: planned and run with the whole backward of a stage where a schedule has
  /// its I, and nothing where it has its W.
  bool splitBackward = true;
  std::string printAfter;    // pass name, or "all"
  std::string dumpDir;       // for the text after each pass that changed the model; empty: none
  bool replaceDumps = false; // those of an older compile; else they are an error
  std::string reproducers;   // directory for what an internal error leaves behind, see
                             // docs/testing.md; empty: nothing is left
  bool reproducerWeights = false; // the model's file lies there, too
  ProgressCallback progress;      // may be empty
};

} // namespace pipec
