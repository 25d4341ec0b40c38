// The runtime's public interface: load an artifact, run batches through it. No LibTorch header.
#pragma once

#include "ir/plan/Plan.h"
#include "ir/values/ValueTree.h"
#include "runtime/Checkpointing.h"
#include "runtime/TrainingOptions.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace pipec {

struct Arguments; // LibTorch's values, for pipec's own commands
struct RunTrace;  // of RunTrace.h

struct PipelineOptions {
  int64_t microBatches = 0;         // of a replica; 0: the plan's default, adapted to each batch:
                                    // see infer()
  int threads = 0;                  // intra-op threads per rank; 0: max(1, cores / ranks)
  std::vector<std::string> devices; // one per rank of all replicas, or one for all; empty: the
                                    // plan's devices, or "cpu"
  std::string scheduleName;         // "forward-only", of a training the name of any other schedule:
                                    // generated for the micro-batches; empty: scheduleCsv
  std::string scheduleCsv;          // text of a schedule; empty: the plan's schedule
  /// 0: every rank runs the ops of the schedule in its order. Else what is ready runs, with at most
  /// this many micro-batches in flight in each stage. The results have the same bits.
  int64_t dynamic = 0;
  /// In a training: the number of copies of the pipeline, each with a thread for each of its ranks.
  /// Every replica runs `microBatches` of each step. Gradients are summed over the replicas, and
  /// all update their weights alike: see docs/training.md. 0: as many as this process has cores
  /// for, or as there are several devices for.
  int64_t replicas = 1;
  uint64_t seed = 0;                       // key of random operators
  std::optional<TrainingOptions> training; // of an artifact compiled for training
};

/// Measurements of one step, in nanoseconds.
struct StepStats {
  int64_t makespanNs = 0;
  std::vector<int64_t> stageBusyNs; // mean of its replicas
  double bubbleMakespan = 0;        // 1 - work / (ranks * makespan)
  double bubbleLongestSpan = 0;     // the same with the longest span of a rank
  /// Of infer(): results that could not be merged as the plan says, because their structure differs
  /// between micro-batches.
  std::vector<std::string> warnings = {};
};

/// The result of the model in eval mode with the weights of a training.
struct Evaluation {
  ValueTree outputs;           // of the whole batch
  std::optional<double> loss;  // as TrainedStep::loss; nothing: no result of eval mode is the loss
  std::optional<double> count; // of a loss that is a pair: of all that it sums
  int64_t samples = 0;
};

/// A running pipeline. It owns its rank threads, its copies of the stages and their state, and the
/// mapping of the artifact's weights. The mapped files must not change while it lives (a new
/// artifact in the same place does no harm). Call it from one thread at a time, possibly another
/// thread for every call, and move or destroy it when no call is running. Several pipelines may run
/// in parallel, also of one artifact.
///
/// All methods that can fail return an error, Usage, while another thread is in a call, and for a
/// pipeline that was moved from. The others have nothing to return for the latter: an empty plan,
/// empty lists and dicts, 0.
class Pipeline {
public:
  /// Reads and verifies the artifact, loads the stages, starts one thread per rank. `options` is
  /// read during the call only. Errors, with their exit codes:
  ///   Usage 2         options that do not fit the plan or the machine (devices, schedule)
  ///   Unreadable 3    LibTorch cannot read a stage: an operator of it is not registered
  ///   BadArtifact 5   no artifact, damaged, or not what its plan says
  ///   Version 6       of another major version, or it needs a feature that is not known here
  ///   IO 8            a file cannot be read
  ///   OutOfMemory 10
  static llvm::Expected<Pipeline> load(const std::string &directory,
                                       const PipelineOptions &options);
  Pipeline(Pipeline &&);
  Pipeline &operator=(Pipeline &&);
  ~Pipeline();

  const Plan &plan() const;
  /// Ranks that the artifact was compiled for. plan() has those of the schedule that runs.
  size_t compiledRanks() const;
  /// Messages of the artifact's reader for the user: unknown keys of a newer minor version.
  const std::vector<std::string> &warnings() const;

  /// Number of micro-batches of the last call, of all replicas together; before any call, the
  /// number for a batch that is large enough.
  int64_t microBatches() const;
  /// Copies of the pipeline, after defaults.
  int64_t replicas() const;
  /// Intra-op threads of each rank, after defaults.
  int threads() const;
  /// Device of each rank, of all replicas, as "cpu" or "cuda:0".
  std::vector<std::string> devices() const;
  /// Peak memory of each rank: of the process on the CPU, of the device's allocator on a GPU.
  std::vector<int64_t> peakMemoryBytes() const;

  /// The ops of the last call with their times. Errors: Usage before the first successful call and
  /// after a failed one.
  llvm::Expected<RunTrace> trace() const;

  /// Runs one batch. A tuple or list in `arguments` holds the positional arguments, a dict the
  /// keyword arguments, and a tensor is the only argument. Missing arguments get their defaults.
  /// Arguments are only read, and not kept. Returns the merged result tree, which the caller owns.
  /// Tensors of the result are on the device of the stage that makes them. The caller's thread
  /// waits; its own LibTorch settings stay as they are.
  ///
  /// Without PipelineOptions::microBatches a batch is cut into the plan's number of micro-batches,
  /// or one per sample if it has fewer. If the model accepts one micro-batch size only, the batch
  /// is cut into micro-batches of that size. If it has no batch dimension, it is not cut. A
  /// schedule that is a table fixes the number.
  ///
  /// Random operators draw from (seed, number of the call, micro-batch, ordinal), so two pipelines
  /// draw the same numbers call by call. Failed calls do not count.
  ///
  /// An error affects only its own call. The model's state, the number of the call and the lanes
  /// between ranks are as before the call, so the next call computes the same bits as without it.
  /// Memory of the failed call is released. Errors before anything runs:
  ///   Usage 2         names, counts, sizes and dtypes that the plan does not allow
  ///   Unreadable 3    a tree that cannot be arguments
  /// The first failure of any stage, naming stage, modules and micro-batch:
  ///   Usage 2         the model does not run on these inputs, with its reason
  ///   BadArtifact 5   a stage did not return what its plan says
  ///   OutOfMemory 10
  ///   Internal 70
  ///   Other 1         a transfer failed, or one of two problems that also affect later calls:
  ///     - a rank is still inside an operator five seconds after the failure: the message names it,
  ///       and calls are refused until that operator returns
  ///     - a device is lost, as a GPU after a failed assertion: the pipeline stays unusable
  llvm::Expected<ValueTree> infer(const ValueTree &arguments, StepStats *stats = nullptr);
  /// For programs that include LibTorch's headers: the same with one value per input of the
  /// signature.
  llvm::Expected<c10::IValue> infer(const std::vector<c10::IValue> &inputs,
                                    StepStats *stats = nullptr);
  /// Makes such values: bindArguments with the declared type of each input. Errors: Usage naming
  /// the argument.
  llvm::Expected<std::vector<c10::IValue>> bind(const Arguments &arguments) const;
  /// Refuses what infer() refuses before it runs, by types and sizes alone: tensors on the meta
  /// device, which have no elements, will do. Errors: Usage, as infer().
  llvm::Error check(const std::vector<c10::IValue> &inputs);

  /// One step of a training on one batch: forwards and backwards of all micro-batches under the
  /// schedule, then the optimizer. Loss and gradients have the bits of Reference::step, except that
  /// those of weights in several stages are summed in another order, and so are all with replicas
  /// that have several micro-batches each. Arguments and errors as for
  /// infer(), and NotFinite 11. A failed step changes nothing, with two exceptions: one that
  /// fails inside an optimizer makes the pipeline unusable; the last of too many skipped steps
  /// (TrainingOptions::mostSkipped) is over when it fails.
  llvm::Expected<TrainedStep> step(const ValueTree &arguments, StepStats *stats = nullptr);
  llvm::Expected<TrainedStep> step(const std::vector<c10::IValue> &inputs,
                                   StepStats *stats = nullptr);
  /// One step on several batches, one after the other: gradients of all add up, then the optimizer
  /// runs once. Each batch is cut as step() cuts it, and runs under the schedule; the first
  /// gradient of a parameter is taken over, later ones are added in place. Loss and gradients are
  /// those of one batch of all samples: each micro-batch weighs by its part of all samples (or, of
  /// a loss that is a pair, of all counts). Random operators draw with micro-batches numbered
  /// through all batches. Errors: as step(); Usage for no batch.
  llvm::Expected<TrainedStep> stepOnBatches(const std::vector<ValueTree> &batches,
                                            StepStats *stats = nullptr);
  llvm::Expected<TrainedStep> stepOnBatches(const std::vector<std::vector<c10::IValue>> &batches,
                                            StepStats *stats = nullptr);
  /// One step on micro-batches that the caller has cut: their sizes may differ. Errors: as step();
  /// Usage for another number than PipelineOptions::microBatches or a schedule's table fixes.
  llvm::Expected<TrainedStep> stepOnMicroBatches(const std::vector<ValueTree> &microBatches,
                                                 StepStats *stats = nullptr);
  llvm::Expected<TrainedStep>
  stepOnMicroBatches(const std::vector<std::vector<c10::IValue>> &microBatches,
                     StepStats *stats = nullptr);
  /// Replaces TrainingOptions::learningRates from the next step on. Errors: Usage.
  llvm::Error setLearningRates(const std::string &text, int64_t steps);

  /// Runs one batch in eval mode on the current weights and state: dropout is off, running
  /// statistics are used. It has the bits of Reference::evaluate. It changes nothing: the steps
  /// after it compute the same bits as without it, and every evaluation draws the same random
  /// numbers. Needs TrainingOptions::evaluation. Arguments and errors as for infer().
  llvm::Expected<Evaluation> evaluate(const ValueTree &arguments);
  llvm::Expected<Evaluation> evaluate(const std::vector<c10::IValue> &inputs);

  /// Of a training: the gradients of the last step before clipping (after it, unless
  /// TrainingOptions::keepGradients), by the first name of each parameter; parameters and buffers
  /// by all their names. On the CPU the tensors are the pipeline's own: the next step changes them;
  /// those of other devices are copied to the CPU.
  ValueTree gradients() const;
  ValueTree state() const;
  /// The first names of state that the training changes and state() does not have: it is neither a
  /// parameter nor a buffer, as a list or a number. Checkpoints have it.
  std::vector<std::string> unsavedState() const;
  /// The optimizer's state of each parameter by its first name: a dict with PyTorch's keys, as
  /// "exp_avg" and "step". Empty before the first step and without an optimizer. Tensors as above.
  ValueTree optimizerState() const;

  /// Of a training, between steps: writes directory/step-N, where N is the number of steps taken:
  /// parameters and state by their original names, the optimizer's state, the key of random
  /// operators, the settings. It appears complete or not at all, and no other checkpoint changes
  /// before. docs/checkpoints.md describes the files. Errors:
  ///   Usage 2        no training; a negative CheckpointOptions::keep; a checkpoint of this step is
  ///                  there; `directory` is an artifact; state that has no form in a file
  ///   Other 1        another process writes a checkpoint there
  ///   IO 8           with the free bytes of a full disk; the training can go on
  llvm::Error saveCheckpoint(const std::string &directory, const CheckpointOptions &options = {});
  /// Makes this the training that wrote the checkpoint: the next steps compute the same bits as if
  /// it had not stopped. Stages, ranks and schedule may be others, and a Reference may have written
  /// it; values find their places by name. `path` is one checkpoint, or a directory of checkpoints,
  /// whose newest one counts; passOverDamaged: whose newest good one counts. A resume that fails
  /// changes nothing. Errors:
  ///   Usage 2        no training; another optimizer, or another setting of it except lr; a
  ///                  parameter is missing, or has another shape or dtype
  ///   BadArtifact 5  the checkpoint is damaged
  ///   Version 6, IO 8 (none is there)
  llvm::Expected<ResumedTraining> resume(const std::string &path, bool passOverDamaged = false);

private:
  struct Impl;
  llvm::Expected<std::vector<c10::IValue>> bindTree(const ValueTree &arguments) const;
  llvm::Expected<std::vector<std::vector<c10::IValue>>>
  bindTrees(const std::vector<ValueTree> &trees) const;
  explicit Pipeline(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

} // namespace pipec
