// The data that the rank threads of a pipeline work on.
#pragma once

#include "ir/artifact/ArtifactCheck.h"
#include "runtime/Interpreter.h"
#include "runtime/RunTrace.h"
#include "runtime/TrainingOptions.h"
#include "runtime/transport/Transport.h"

#include <mutex>
#include <optional>

namespace pipec {

/// A schedule that is ready to run one number of micro-batches.
struct ReadyProgram {
  int64_t microBatches = 0; // of each replica
  RunTrace run;             // its program and shape; Pipeline::trace() adds the times
  std::unique_ptr<Transport> transport;
  std::unique_ptr<Collectives> collectives; // of a training
  std::unique_ptr<RankCores> cores;
  std::vector<std::unique_ptr<Interpreter>> interpreters; // per rank, of all replicas
};

/// The stages of one replica.
struct ReplicaStages {
  std::vector<std::unique_ptr<StageExecutor>> executors; // per stage
  std::vector<std::unique_ptr<StageTraining>> trainings; // per stage; empty: inference
};

/// All data that rank threads use; they share its ownership with the pipeline. Between calls the
/// caller's thread may use it.
struct PipelineCore {
  Artifact artifact;
  size_t replicas = 1;
  std::vector<std::shared_ptr<Device>> devices;          // per rank, of all replicas
  std::vector<std::unique_ptr<StageExecutor>> executors; // per stage, of replica 0
  std::optional<TrainingOptions> training;
  std::vector<std::unique_ptr<StageTraining>> trainings; // per stage, of replica 0
  std::vector<ReplicaStages> others;                     // of replicas 1 and up
  int64_t inFlight = 0;                                  // see PipelineOptions::dynamic
  std::optional<ReadyProgram> program;
  StepData data;

  std::mutex mutex;
  std::optional<ErrorText> firstError;
  std::optional<int64_t> failedMicroBatch; // of that error, if a stage failed
  std::optional<ErrorText> lost;           // why a rank cannot continue after it

  std::vector<std::unique_ptr<StageExecutor>> &executorsOf(size_t replica) {
    return replica == 0 ? executors : others[replica - 1].executors;
  }
  std::vector<std::unique_ptr<StageTraining>> &trainingsOf(size_t replica) {
    return replica == 0 ? trainings : others[replica - 1].trainings;
  }

  /// Makes the program of a schedule. microBatches: of each replica. Errors: those of lower(),
  /// check() and resolve().
  llvm::Error prepare(const Schedule &schedule, int64_t microBatches);

  /// One step of one rank, on its thread. The first error is kept; errors of ranks that it stopped
  /// only repeat it.
  void runRank(size_t rank);
  /// Restores a rank after a failed step, on the rank's thread, when all ranks have stopped: waits
  /// for the device and restores the state of the rank's stages.
  void restoreRank(size_t rank);
  /// Removes the remains of the failed step, when all ranks are restored.
  void forgetStep();

private:
  void fail(const ErrorText &error, std::optional<int64_t> microBatch);
};

} // namespace pipec
