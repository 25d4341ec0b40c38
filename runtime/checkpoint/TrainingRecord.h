// The settings of a training in a checkpoint, besides its tensors, and how a run that resumes it
// may differ. Pipeline and reference share it.
#pragma once

#include "ir/checkpoint/CheckpointValues.h"
#include "runtime/Checkpointing.h"
#include "runtime/TrainingOptions.h"
#include "runtime/training/LearningRates.h"
#include "runtime/training/StepNumbers.h"

namespace pipec {

/// All of a training that is no tensor: references to where it lives.
struct TrainingRecord {
  const TrainingOptions &options;
  const StepRates &rates;
  SkippedSteps &skipped;
  uint64_t &steps, &seed;
  int64_t microBatches;
  bool presplit; // they are those of the last step, which the caller had cut
  int threads;
};

/// The description without its files. Errors: Usage for options that cannot be.
llvm::Expected<CheckpointText> describeTraining(const TrainingRecord &record,
                                                const CheckpointOptions &options);

/// Compares the settings of the run with those of the checkpoint. Errors: Usage for another
/// optimizer; otherwise the differences for the user.
llvm::Expected<std::vector<std::string>> compareSettings(const CheckpointText &text,
                                                         const TrainingRecord &record);

/// Sets the numbers of the record, when all tensors are restored.
ResumedTraining resumeRecord(const OpenedCheckpoint &checkpoint, TrainingRecord &record,
                             std::vector<std::string> differences);

} // namespace pipec
