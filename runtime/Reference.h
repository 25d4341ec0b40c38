// The unsplit model, run in the same way as a pipeline runs its stages. Every artifact must give
// the same numbers.
#pragma once

#include "ir/SourceMode.h"
#include "ir/plan/Plan.h"
#include "runtime/Pipeline.h"
#include "runtime/TrainingOptions.h"

#include <ATen/core/ivalue.h>

#include <memory>

namespace pipec {

struct BatchParts; // ir/batch/BatchSplit.h

struct ReferenceOptions {
  std::string method = "forward"; // with a loss in `mode`, the method that joins the two instead
  int64_t microBatches = 1;
  int threads = 0; // intra-op threads; 0: all cores
  std::string device = "cpu";
  uint64_t seed = 0;
  SourceMode mode; // training flags: as saved
  std::vector<std::pair<std::string, std::optional<int64_t>>>
      batchDims; // by argument, or part of it ("batch.mask", "xs.0"); nullopt: every micro-batch
                 // gets it whole
  std::vector<std::pair<std::string, MergeRule>> merges; // by the path of a result
};

struct StepSums; // of a training step

/// A plain TorchScript file as one rank: graph optimiser off, no grad mode, keyed random operators,
/// micro-batches in order. One thread at a time. A call runs on the caller's thread and restores
/// its settings.
class Reference {
public:
  /// Errors: those of loadSource; Usage for an unknown method (naming those that exist), device or
  /// argument.
  static llvm::Expected<Reference> load(const std::string &path, const ReferenceOptions &options);
  Reference(Reference &&);
  Reference &operator=(Reference &&);
  ~Reference();

  /// Inputs come from the method's schema; output tree, merge rules and batch dimensions from the
  /// first infer().
  const Signature &signature() const;
  std::vector<c10::TypePtr> inputTypes() const;
  int threads() const;
  /// Of each batch, or of the last step if the caller cut its micro-batches.
  int64_t microBatches() const;
  std::string device() const;
  int64_t peakMemoryBytes() const;

  /// Messages of infer() for the user: which modules are in training mode, how arguments are cut,
  /// and which results differ from those of the whole batch.
  const std::vector<std::string> &notes() const;
  const std::vector<std::string> &warnings() const;

  /// Runs one batch and merges the micro-batches' results. With several micro-batches the first
  /// call finds out which inputs and results follow the batch (ir/batch/discovery/Discovery.h),
  /// from the first micro-batch, and compares up to 64 samples of all of them with a whole batch.
  /// It uses fresh copies of the model for this, so the model's state starts as saved. Errors:
  /// Usage as for Pipeline::infer; Other with the micro-batch and LibTorch's message. As there, a
  /// failed call changes nothing.
  llvm::Expected<c10::IValue> infer(const std::vector<c10::IValue> &inputs,
                                    StepStats *stats = nullptr);

  /// Makes this a training: its weights get gradients and an optimizer. Call once, before step().
  /// Errors: Usage for options that do not fit the model.
  llvm::Error train(const TrainingOptions &options);

  /// One step of a training on one batch. Micro-batches run in order, each forward and backward.
  /// The backward of micro-batch k starts with its part of the loss (see docs/training.md), and
  /// gradients add up as in `grad` of PyTorch. Then the optimizer updates the weights. Errors:
  /// those of infer(); Usage if the result is no loss; NotFinite. A failed step changes nothing.
  llvm::Expected<TrainedStep> step(const std::vector<c10::IValue> &inputs,
                                   StepStats *stats = nullptr);

  /// One step on several batches, and on micro-batches that the caller has cut: as the methods of
  /// Pipeline with these names.
  llvm::Expected<TrainedStep> stepOnBatches(const std::vector<std::vector<c10::IValue>> &batches,
                                            StepStats *stats = nullptr);
  llvm::Expected<TrainedStep>
  stepOnMicroBatches(const std::vector<std::vector<c10::IValue>> &microBatches,
                     StepStats *stats = nullptr);
  /// Runs one batch in eval mode on the current weights and state, in micro-batches as step() does
  /// (as many as there are samples, if these are fewer). It changes nothing, and draws the random
  /// numbers of the first infer(). Errors: those of infer().
  llvm::Expected<Evaluation> evaluate(const std::vector<c10::IValue> &inputs);

  /// Replaces TrainingOptions::learningRates from the next step on. Errors: Usage.
  llvm::Error setLearningRates(const std::string &text, int64_t steps);

  /// The gradients of the last step before clipping, and parameters and buffers: dicts by the
  /// model's names. A tensor with several names has its first one in gradients(), all in state().
  ValueTree gradients() const;
  ValueTree state() const;
  /// As Pipeline::unsavedState, but only what has another value than in the file. Errors: those of
  /// load().
  llvm::Expected<std::vector<std::string>> unsavedState() const;
  /// As Pipeline::optimizerState.
  ValueTree optimizerState() const;

  /// As of a Pipeline, whose checkpoints it reads, too.
  llvm::Error saveCheckpoint(const std::string &directory, const CheckpointOptions &options = {});
  llvm::Expected<ResumedTraining> resume(const std::string &path, bool passOverDamaged = false);

private:
  struct Impl;
  llvm::Expected<BatchParts> split(const std::vector<c10::IValue> &inputs);
  llvm::Expected<TrainedStep> stepOn(llvm::Expected<BatchParts> parts, StepStats *stats);
  llvm::Expected<TrainedStep> stepOnce(BatchParts &parts, StepStats *stats);
  llvm::Error runMicroBatch(BatchParts &parts, size_t k, StepSums &sums);
  llvm::Expected<TrainedStep> stepOrRestore(BatchParts &parts, StepStats *stats);
  llvm::Expected<c10::IValue> inferOrRestore(const std::vector<c10::IValue> &inputs,
                                             StepStats *stats);
  llvm::Expected<c10::IValue> inferOnce(const std::vector<c10::IValue> &inputs, StepStats *stats);
  struct Inferred;
  llvm::Expected<Inferred> inferLeaves(const std::vector<c10::IValue> &inputs, StepStats *stats);
  llvm::Error readFrom(const Reference &trained);
  llvm::Error mergeInto(Evaluation &result, const Inferred &inferred,
                        const TrainingOptions &options, const std::string &path);
  explicit Reference(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

} // namespace pipec
