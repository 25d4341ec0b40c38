// The steps of a training: how many there are, and on which batches each one runs.
#pragma once

#include "tools/run/Trainer.h"
#include "tools/run/TrainingBatches.h"

#include <optional>

namespace pipec {

/// Where the batches come from, as the options say.
struct StepSource {
  std::string inputs, targets; // one batch, which every step takes
  bool isArtifact = false;     // what is trained, and not a .pt
  std::string data;            // or a file of samples; empty: not given
  bool presplit = false;       // the file of `inputs` is a list of micro-batches
  int64_t batch = 0;           // samples of a step, of `data`; 0: not given
  int64_t epochs = 1;          // of `data`
  bool shuffle = false;        // of `data`
  bool dropLast = false;       // of `data`: an epoch's last batch, if it has fewer samples
  std::optional<int64_t> steps;
  int64_t accumulate = 1; // batches of a step
};

class TrainSteps {
public:
  /// `seed`: of the order of samples. Errors: those of reading the files, and of values that the
  /// model does not take.
  static llvm::Expected<TrainSteps> read(const Trainer &trainer, const StepSource &source,
                                         uint64_t seed);

  /// All steps, with those before a resume.
  int64_t count() const { return count_; }
  /// The batches of a step, or its micro-batches if they were cut before.
  /// step: from 0. Errors: Usage if LibTorch cannot cut the samples.
  llvm::Expected<Trainer::Batches> of(int64_t step) const;

  TrainingBatches &batches() { return batches_; }

private:
  TrainingBatches batches_ = TrainingBatches::fixed({}, {});
  std::optional<Trainer::Batches> presplit_; // the same in every step
  int64_t count_ = 1;
  int64_t accumulate_ = 1;
  int64_t last_ = 0; // batches in all; 0: as many as the steps take
};

} // namespace pipec
