// --checkpoint and --resume of pipe-run --train.
#pragma once

#include "llvm/Support/CommandLine.h"
#include "tools/cli/Signals.h"
#include "tools/run/Trainer.h"
#include "tools/run/TrainingBatches.h"

#include <optional>

namespace pipec {

/// The checkpoints of one training. With --checkpoint the first signal that asks the process to end
/// lets the step in progress finish, and its checkpoint is written.
class TrainCheckpoints {
public:
  /// Options that do not fit together, before anything is read. Errors: Usage.
  static llvm::Error checkOptions();
  /// Its options, none of which may be given without --train.
  static std::vector<const llvm::cl::Option *> options();

  /// Whether --checkpoint is given.
  static bool areWritten();

  explicit TrainCheckpoints(const Trainer &trainer) : trainer_(trainer) {}

  /// Resumes where that is asked for, and proves that checkpoints can be written. `seed`: given by
  /// the user; batches get that of the checkpoint. Returns the number of the first step, from 0.
  /// Errors: those of Pipeline::resume; Usage if the directory holds checkpoints that this run
  /// would mix with its own, or if batches are cut otherwise than before.
  llvm::Expected<int64_t> begin(TrainingBatches &batches, std::optional<uint64_t> seed);

  /// After `done` of `count` steps: writes a checkpoint where one is due. Does not return if a
  /// signal has asked the process to end.
  llvm::Error afterStep(int64_t done, int64_t count, const TrainingBatches &batches);

  void note(llvm::json::Object &options) const;

private:
  llvm::Error resumeFrom(const std::string &path, bool passOverDamaged, TrainingBatches &batches,
                         std::optional<uint64_t> seed);
  bool continuesOwn() const;
  llvm::Error refuseOthers() const;

  const Trainer &trainer_;
  std::optional<ResumedTraining> resumed_;
  std::optional<GracefulStop> stop_;
};

} // namespace pipec
