#include "runtime/PipelineCore.h"

#include "ir/TorchError.h"
#include "ir/schedule/Lower.h"
#include "ir/schedule/NamedSchedule.h"
#include "ir/schedule/ProgramCheck.h"
#include "ir/schedule/SeparateLanes.h"
#include "ir/support/Try.h"
#include "runtime/transport/InProcess.h"
#include "runtime/transport/InProcessCollectives.h"

namespace pipec {

llvm::Error PipelineCore::prepare(const Schedule &schedule, int64_t microBatches) {
  const Plan &plan = artifact.plan;
  RunShape shape;
  shape.microBatches = microBatches;
  if (training)
    shape = trainingShape(plan, schedule, microBatches, training->updates());
  shape.replicas = replicas;
  Program lowered = TRY(lower(schedule, plan, shape));
  TRY(check(lowered, plan, shape));
  if (inFlight > 0)
    lowered = separateLanes(lowered);
  ReadyProgram ready;
  ready.microBatches = microBatches;
  ready.transport = makeInProcessTransport(lowered.lanes, devices);
  ready.collectives = makeInProcessCollectives(lowered.groups, devices);
  ready.cores = std::make_unique<RankCores>(lowered.ranks.size());
  for (size_t rank = 0; rank < lowered.ranks.size(); ++rank) {
    const size_t replica = rank / plan.ranks;
    RankProgram resolved = TRY(resolve(lowered, rank, plan, microBatches));
    std::unique_ptr<RankTraining> ofRank;
    if (training)
      ofRank = std::make_unique<RankTraining>(rank, plan, trainingsOf(replica), *ready.collectives);
    const MicroBatchRange ofReplica{static_cast<int64_t>(replica) * microBatches, microBatches};
    ready.interpreters.push_back(std::make_unique<Interpreter>(
        std::move(resolved), executorsOf(replica), *ready.transport, *ready.cores, rank,
        *devices[rank], std::move(ofRank), ofReplica, inFlight));
  }
  ready.run = {std::move(lowered), std::move(shape), {}};
  program = std::move(ready);
  return llvm::Error::success();
}

void PipelineCore::fail(const ErrorText &error, std::optional<int64_t> microBatch) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (firstError)
      return;
    firstError = error;
    failedMicroBatch = microBatch;
    data.failed = true;
  }
  program->transport->abort(error);
  program->collectives->abort(error);
}

void PipelineCore::runRank(size_t rank) {
  Interpreter &interpreter = *program->interpreters[rank];
  llvm::Error error = guardTorchError(ExitCode::Internal, fmt::format("rank {}", rank),
                                      [&] { return interpreter.run(data); });
  if (error)
    fail(describe(std::move(error)), interpreter.failedMicroBatch());
}

void PipelineCore::restoreRank(size_t rank) {
  llvm::Error error = guardTorchVoid(ExitCode::Other, "device " + devices[rank]->name(),
                                     [&] { devices[rank]->finish(); });
  const Plan &plan = artifact.plan;
  for (size_t k = 0; k < replicas; ++k)
    for (size_t s = 0; s < plan.stages.size() && !error; ++s)
      if (k * plan.ranks + plan.stages[s].rank == rank)
        error = executorsOf(k)[s]->restoreState();
  if (!error)
    error = guardTorchVoid(ExitCode::Other, "device " + devices[rank]->name(),
                           [&] { devices[rank]->finish(); });
  if (!error)
    return;
  ErrorText text = describe(std::move(error));
  std::lock_guard<std::mutex> lock(mutex);
  if (!lost)
    lost = text;
}

void PipelineCore::forgetStep() {
  program->transport->reset();
  program->collectives->reset();
  for (const std::unique_ptr<Interpreter> &interpreter : program->interpreters)
    interpreter->forget();
  data.inputs.clear();
  data.leaves.clear();
  data.failed = false;
  std::lock_guard<std::mutex> lock(mutex);
  firstError.reset();
  failedMicroBatch.reset();
}

} // namespace pipec
