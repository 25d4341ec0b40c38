// The compiler's public interface: load a model, choose the cuts, compile, save. No LibTorch
// header.
#pragma once

#include "compiler/Progress.h"
#include "compiler/planner/RecomputeWish.h"
#include "ir/artifact/Finding.h"
#include "ir/batch/PartSizes.h"
#include "ir/batch/ResultCheck.h"
#include "ir/plan/Plan.h"
#include "passes/CutSource.h"
#include "passes/PassTimes.h"

#include <functional>
#include <memory>
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

class ArtifactWriter;
struct InternalOptions;

/// A finished compile that is not saved yet. It owns its files, weights included, in a temporary
/// directory below $TMPDIR (or /tmp), and removes them when it is destroyed. It needs neither the
/// Compiler nor the model's file any more. One thread at a time; any thread.
class Compiled {
public:
  Compiled(Compiled &&);
  Compiled &operator=(Compiled &&) = delete;
  ~Compiled();

  const CompileReport &report() const { return report_; }

  /// Copies the artifact to `dir`, which appears complete or not at all. `force` replaces an
  /// existing artifact. It may be called again for another place. Errors: Usage (exists without
  /// force, or is no artifact), IO (cannot be written, disk full).
  llvm::Error save(const std::string &dir, bool force = false) const;

private:
  friend class Compiler;
  Compiled(CompileReport report, std::unique_ptr<ArtifactWriter> files);
  CompileReport report_;
  std::unique_ptr<ArtifactWriter> files_;
};

/// Compiles one model, any number of times. One thread at a time; several compilers may run in
/// several threads. A call runs on the caller's thread, and on return the thread's settings (grad
/// mode, intra-op threads, graph optimiser) are as before. LibTorch's print handler gets what the
/// model prints in its first run on the example. Its further test runs, several at a time on their
/// own threads, print nothing.
class Compiler {
public:
  /// Remembers the path. Every compile maps the file again, so it starts from the saved state. The
  /// file must not change during a compile. Problems of the file are errors of compile(); load
  /// itself does not fail today.
  static llvm::Expected<Compiler> load(const std::string &modelPath);
  Compiler(Compiler &&);
  Compiler &operator=(Compiler &&);
  ~Compiler();

  /// Cuts, emits into a temporary directory beside `outDir`, validates the files as read back, then
  /// publishes: `outDir` appears complete or not at all. The result holds the report and nothing of
  /// the artifact. `options` is read during the call only. Errors, with their exit codes:
  ///   Usage 2        options that do not fit the model or one another; `outDir` exists without
  ///                  `force`, or is no artifact; the model does not run on the example inputs
  ///   Unreadable 3   the model's or the inputs' file is not what it should be
  ///   Unsupported 4  a model that cannot be cut, or not into so many stages; names operator and
  ///                  source line
  ///   IO 8           a file cannot be opened or written; the disk is full
  ///   OutOfMemory 10
  ///   Internal 70    the proof or the comparison with the source failed
  llvm::Expected<CompileReport> compile(const CompileOptions &options, const std::string &outDir,
                                        bool force = false);

  /// The same without a target: look at the report, then decide whether to save. Errors: as above.
  llvm::Expected<Compiled> compile(const CompileOptions &options);

  /// Proves later that the artifact in `artifact` was made from this model. It normalises the model
  /// as the plan says the compile did, without running it, links the stages, and compares every
  /// operator, every weight and the plan; then the stages that evaluate, if there are any, whose
  /// findings begin with "evaluation: ". The findings name the first difference: other-operator,
  /// other-weight, other-plan; none: proved. Errors: those of compile() for a model that cannot be
  /// read or lowered, those of openArtifact, BadArtifact for stages that do not fit their plan.
  llvm::Expected<std::vector<Finding>> compareWith(const std::string &artifact);

  /// Traces a compile() for debugging: runs its passes once more and writes into the existing
  /// `directory` pipeline.txt, the passes in the form of `pipe-opt --passes`, and
  /// passes/NN-PASS.ir, the model after each pass that changed it, without weights. Failures of the
  /// passes are not reported. Errors: IO.
  llvm::Error trace(const CompileOptions &options, const std::string &directory);

  /// The passes that compile() would run, in pipe-opt's form.
  static std::string pipelineText(const CompileOptions &options);

private:
  friend llvm::Expected<Compiler> loadWith(const std::string &modelPath, InternalOptions internal);
  struct Impl;
  Compiler(const std::string &modelPath, InternalOptions internal);
  std::unique_ptr<Impl> impl_;
};

} // namespace pipec
