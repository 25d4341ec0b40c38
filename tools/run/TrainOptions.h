// The options of pipe-run --train, read and checked. Those of checkpoints are in
// TrainCheckpoints.h.
#pragma once

#include "llvm/Support/JSON.h"
#include "runtime/TrainingOptions.h"
#include "tools/run/TrainSteps.h"

#include <optional>

namespace pipec {

struct TrainOptions {
  TrainingOptions training; // without learning rates, whose steps only the run knows
  StepSource source;        // without inputs, an option of every run
  std::string loss;         // file of a .pt's loss; empty: the model returns it
  std::string lrSchedule;   // empty: constant
  std::string evalData;     // file of samples; empty: no evaluations
  std::string evalArtifact; // empty: the artifact that is trained
  int64_t evalEvery = 0;    // steps; 0: only after the last one
  int64_t replicas = 1;     // of an artifact; 0: as many as fit
  std::string emitGrads;    // file; empty: not given
};

/// Nothing without --train. hasInputs: --inputs was given; replaces: --force. Errors: Usage for an
/// option of a training without --train, and for options that do not fit together.
llvm::Expected<std::optional<TrainOptions>> readTrainOptions(bool hasInputs, bool replaces);

/// Errors: Usage for options that an artifact, or a .pt, does not have.
llvm::Error checkTrainedModel(const TrainOptions &options, bool isArtifact);

/// Notes a training whose results are weights, although nothing changes them.
void noteWithoutOptimizer(const TrainOptions &options, bool writesWeights);

/// Adds the effective options to a report. One without a default is left out unless it was given.
void noteTrainOptions(llvm::json::Object &json);

} // namespace pipec
