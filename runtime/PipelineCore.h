// What the rank threads of a pipeline work on.
#pragma once

#include "ir/artifact/ArtifactCheck.h"
#include "runtime/Interpreter.h"
#include "runtime/transport/Transport.h"

#include <mutex>
#include <optional>

namespace pipec {

/// A schedule, ready to run one number of micro-batches.
struct ReadyProgram {
  int64_t microBatches = 0;
  std::unique_ptr<Transport> transport;
  std::vector<std::unique_ptr<Interpreter>> interpreters; // per rank
};

/// Everything that rank threads touch; they share its ownership with the pipeline. Between calls it
/// belongs to the caller's thread.
struct PipelineCore {
  Artifact artifact;
  std::vector<std::shared_ptr<Device>> devices;          // per rank
  std::vector<std::unique_ptr<StageExecutor>> executors; // per stage
  std::optional<ReadyProgram> program;
  StepData data;

  std::mutex mutex;
  std::optional<ErrorText> firstError;
  std::optional<int64_t> failedMicroBatch; // of that error, if a stage made it
  std::optional<ErrorText> lost;           // why a rank cannot go on after it

  /// Makes the program of a schedule. Errors: those of lower(), check() and resolve().
  llvm::Error prepare(const Schedule &schedule, int64_t microBatches);

  /// One step of one rank, on its thread. The first error wins: those of ranks that it stopped are
  /// its echo.
  void runRank(size_t rank);
  /// After a step that failed, on the rank's thread, when all ranks have stopped: waits for the
  /// device and puts the state of the rank's stages back.
  void restoreRank(size_t rank);
  /// When all ranks are restored: nothing of the failed step is left.
  void forgetStep();

private:
  void fail(const ErrorText &error, std::optional<int64_t> microBatch);
};

} // namespace pipec
