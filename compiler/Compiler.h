// The compiler's public face: load a model, say where to cut, compile, save. No LibTorch header.
#pragma once

#include "compiler/Progress.h"
#include "ir/batch/ResultCheck.h"
#include "ir/plan/Finding.h"
#include "ir/plan/Plan.h"

#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace pipec {

/// What a cut predicate sees of a node at top level of the flat graph.
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

/// What the modules' training flags are folded to.
enum class TrainingFlag { Saved, False, True };

struct CompileOptions {
  size_t stages = 0; // 0: as the cuts say
  std::vector<Cut> cuts;
  std::string split; // "auto", "markers", "at"; empty: at if named, else markers if there are some,
                     // else auto
  bool nearest = false; // a given cut that cannot stand where it was asked for moves to the nearest
                        // place where it can, with a warning; else it is an error
  std::string inputs;   // values file or description of one micro-batch; empty: none
  std::vector<std::string> moreInputs; // further examples: sizes that differ from the first vary
  std::string method = "forward";
  std::vector<std::pair<std::string, std::optional<int64_t>>> batchDims; // nullopt: "none"
  /// How results of micro-batches become one, by path (see ir/plan/OutputPath.h), for those that
  /// the example does not show right.
  std::vector<std::pair<std::string, MergeRule>> merges;
  std::vector<std::pair<std::string, Tie::Mode>> tied; // name "" is the default for all
  Mode mode = Mode::Infer; // Train: cuts and all else are planned for training
  TrainingFlag trainingFlag = TrainingFlag::Saved;
  std::vector<std::string> keepEval;
  Verify verify = Verify::Graph;
  std::string cost;    // "analytic", "measured", or a table of --emit-costs; empty: measured for
                       // automatic cuts where all devices are CPUs, else analytic
  std::string cluster; // a file, see docs/cluster.md; empty: a CPU core per rank
  int64_t costBudgetNs = 0;  // for measured costs; 0: ten seconds
  bool listCosts = false;    // fill CompileReport::costTable also where costs were only counted
  int64_t memoryLimit = 0;   // bytes of a stage; 0: as the cluster says
  int64_t microBatches = 0;  // 0: number of stages
  size_t ranks = 0;          // 0: one per stage; by measured costs at most one per core, or as
                             // many as the cluster has devices
  std::string schedule;      // "auto": stages per rank, ranks of stages and the number of
                             // micro-batches are chosen where not given; empty: as ever. In
                             // Mode::Train a generator's name: what it leaves free is chosen
  std::string scheduleCsv;   // a table of forward actions as the artifact's default schedule, which
                             // says ranks of stages and micro-batches, too; empty: forward-only
  int64_t batch = 0;         // of Mode::Train: samples of a step; 0: see planTraining
  std::string recompute;     // of Mode::Train: "never", "always", "auto"; empty: auto
  std::string printAfter;    // pass name, or "all"
  std::string dumpDir;       // for the text after each pass that changed the model; empty: none
  bool replaceDumps = false; // those of an older compile; else they are an error
  int64_t pastCacheFrom = int64_t(1) << 30; // bytes of weights from which on they are written past
                                            // the kernel's cache, and only their ends read back
  std::string plantedFault;                 // test builds only
  std::string reproducers;          // directory for what an internal error leaves behind, see
                                    // docs/testing.md; empty: nothing is left
  bool reproducerWeights = false;   // the model's file lies there, too
  std::vector<std::string> command; // recorded there
  ProgressCallback progress;        // may be empty
};

struct PhaseTime {
  std::string name;
  int64_t ns;
};

/// What is expected of the pipeline; empty without operator costs.
struct Prediction {
  bool known = false;
  std::vector<int64_t> forwardNs;   // per stage, one micro-batch
  std::vector<int64_t> memoryBytes; // per stage: weights, and the most that results need at
                                    // once; empty: where cuts were given
  int64_t stepNs = 0;
  double bubble = 0; // of the step
};

/// How good an automatic cut is.
struct PartitionQuality {
  bool known = false;
  double bottleneckNs = 0; // of the busiest stage, computing and sending
  double lowerBoundNs = 0; // no cut into as many stages has a busiest stage with less
  size_t moved = 0;        // operators that run earlier or later than in the program, at least
  double gap() const { return bottleneckNs > 0 ? 1 - lowerBoundNs / bottleneckNs : 0; }
};

/// What --schedule auto chose by.
struct ScheduleQuality {
  size_t placements = 0;    // that fit into the memory; 0: not computed
  int64_t stepNs = 0;       // of the best, simulated with the cluster's devices and links
  int64_t lowerBoundNs = 0; // of a step, however these stages are placed; 0: not known
  double bubble = 0;
};

struct PlannedTraining;

/// What the report prints.
struct CompileReport {
  Plan plan;
  Prediction prediction;
  PartitionQuality partition;
  ScheduleQuality schedule;
  std::shared_ptr<const PlannedTraining> training; // of Mode::Train, else nothing
  std::string ranksWhy;  // why there are fewer ranks than stages; empty if --ranks was given
  std::string costTable; // what every operator costs, where it was measured, read or asked for
  std::vector<PhaseTime> phases;
  int64_t torchFileNs = 0;    // of all phases: LibTorch's own reading and writing of TorchScript
  int64_t torchFileCpuNs = 0; // its processor time
  std::vector<ResultCheck> results; // per output leaf: is it the whole batch's?
  std::string sizeLinks; // how sizes of several examples hang together: "t = dimension 2 of past"
  std::vector<std::string> notes;    // "encoder.pool has no nodes left: cut before encoder.fc"
  std::vector<std::string> warnings; // what is probably not wanted, and what to do
  std::vector<std::string> proved;   // what validation proved
  std::vector<std::string> tested;   // what was only tested by running
  int64_t peakMemoryBytes = 0;
};

class ArtifactWriter;

/// A finished compile that is not saved yet. Its files, weights included, lie in a directory of
/// their own below $TMPDIR (or /tmp) as long as it lives; it owns them and removes them. It does
/// not need the Compiler or the model's file any more. One thread at a time; any thread.
class Compiled {
public:
  Compiled(Compiled &&);
  Compiled &operator=(Compiled &&) = delete;
  ~Compiled();

  const CompileReport &report() const { return report_; }

  /// Copies the artifact to `dir`, which appears complete or not at all; `force` replaces an
  /// artifact that is there. It may be called again, for another place. Errors: Usage (exists
  /// without force, or is no artifact), IO (cannot be written, disk full).
  llvm::Error save(const std::string &dir, bool force = false) const;

private:
  friend class Compiler;
  Compiled(CompileReport report, std::unique_ptr<ArtifactWriter> files);
  CompileReport report_;
  std::unique_ptr<ArtifactWriter> files_;
};

/// Compiles one model, as often as wanted. One thread at a time; several compilers may work in
/// several threads. A call runs on the caller's thread; it may change none of its settings (grad
/// mode, intra-op threads, graph optimiser) for longer than the call. What the model prints in
/// its first run on the example goes where LibTorch's print handler sends it; its further test
/// runs, several at a time on threads of their own, print nothing.
class Compiler {
public:
  /// Remembers the file; every compile maps it anew and so starts from its state. It must stay
  /// unchanged during a compile. What is wrong with the file is an error of compile(): load itself
  /// does not fail today.
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
  ///   Unsupported 4  what cannot be cut, or not as often: names operator and source line
  ///   IO 8           a file cannot be opened or written; the disk is full
  ///   OutOfMemory 10
  ///   Internal 70    the proof or the comparison with the source failed
  llvm::Expected<CompileReport> compile(const CompileOptions &options, const std::string &outDir,
                                        bool force = false);

  /// The same without a place yet: look at the report, then save, or do not. Errors: as above.
  llvm::Expected<Compiled> compile(const CompileOptions &options);

  /// Proves later that the artifact in `artifact` is this model: normalises it as the plan says the
  /// compile did, without running any of it, links the stages and compares every operator, weight
  /// and word of the plan. The findings name the first difference: other-operator, other-weight,
  /// other-plan; none: proved. Errors: those of compile() for a model that cannot be read or
  /// lowered, of openArtifact, BadArtifact for stages that do not fit their plan.
  llvm::Expected<std::vector<Finding>> compareWith(const std::string &artifact);

  /// What helps to find a fault of compile(): runs its passes once more and writes into
  /// `directory`, which exists, pipeline.txt, the passes as `pipe-opt --passes` takes them, and
  /// passes/NN-PASS.ir, the model after each pass that changed it, without weights. How it fails is
  /// not told. Errors: IO.
  llvm::Error trace(const CompileOptions &options, const std::string &directory);

  /// The passes that compile() would run, as pipe-opt takes them.
  static std::string pipelineText(const CompileOptions &options);

private:
  struct Impl;
  explicit Compiler(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

} // namespace pipec
