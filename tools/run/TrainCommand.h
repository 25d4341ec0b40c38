// pipe-run --train: its options, its loop over steps, what it prints.
#pragma once

#include "ir/values/Values.h"
#include "runtime/Pipeline.h"
#include "tools/cli/ToolMain.h"
#include "tools/report/RunReport.h"

#include <functional>

namespace pipec {

/// What is trained: a pipeline or a reference.
struct Trainer {
  using Batches = std::vector<std::vector<c10::IValue>>;
  std::function<llvm::Expected<TrainedStep>(const Batches &, StepStats &)> stepOnBatches,
      stepOnMicroBatches;
  std::function<llvm::Error(const std::string &text, int64_t steps)> setLearningRates;
  std::function<llvm::Expected<Evaluation>(const std::vector<c10::IValue> &)> evaluate;
  std::function<c10::IValue()> gradients, state;
  std::function<const Signature &()> signature;
  std::function<llvm::Expected<std::vector<c10::IValue>>(const Arguments &)> bind;
  std::function<llvm::Error(const std::string &directory, const CheckpointOptions &options)>
      saveCheckpoint;
  std::function<llvm::Expected<ResumedTraining>(const std::string &path, bool passOverDamaged)>
      resume;
};

/// The options of a training. Others of pipe-run it refuses.
class TrainCommand {
public:
  /// Whether --train was given. Errors: Usage for an option of a training without it, and for
  /// numbers that do not fit together. hasInputs: --inputs was given; replaces: --force.
  static llvm::Expected<bool> isWanted(bool hasInputs, bool replaces);
  /// Without learning rates, whose steps only run() knows.
  static llvm::Expected<TrainingOptions> options();
  /// Errors: Usage for options that an artifact, or a .pt, does not have.
  static llvm::Error checkModelKind(bool isArtifact);
  /// TrainingOptions::evaluation of a training of `artifact`.
  static std::string evaluationFor(const std::string &artifact);
  /// Of --loss; empty: not given.
  static std::string lossFile();
  /// Trains, prints each step, writes what was asked for. `output`: empty, or a file for parameters
  /// and buffers. seed: given by the user. microBatches: 0: not given. Without a step the report
  /// has no durations: a checkpoint was of the last one.
  static llvm::Error run(const Trainer &trainer, const std::string &inputs,
                         const std::string &output, std::optional<uint64_t> seed,
                         int64_t microBatches, bool json, RunReport &report);
};

} // namespace pipec
