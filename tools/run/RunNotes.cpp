#include "tools/run/RunNotes.h"

#include "ir/batch/FixedBatch.h"
#include "ir/plan/PlanNames.h"
#include "ir/support/Try.h"
#include "ir/support/Words.h"
#include "tools/cli/OutputFile.h"
#include "tools/run/TraceFile.h"

namespace pipec {

void noteMicroBatches(const RunCommand &command, const Runner &runner, int64_t samples,
                      llvm::ArrayRef<c10::IValue> inputs) {
  const int64_t used = runner.microBatches();
  if (command.microBatches || used == runner.byDefault)
    return;
  const Signature &signature = runner.signature();
  std::string why = "the batch has " + counted(static_cast<size_t>(samples), "sample");
  if (samples == 0)
    why = isCut(signature) ? "the batch has no samples" : "no input has a batch dimension";
  else if (!signature.batchSymbolic)
    why += fmt::format(", and {} fix a micro-batch of {}", whatFixesBatch(signature, inputs),
                       signature.batchSize);
  printNote(fmt::format("running {} instead of the default {}: {}",
                        counted(static_cast<size_t>(used), "micro-batch"), runner.byDefault, why));
}

llvm::Error noteTimes(const RunCommand &command, const Runner &runner, RunReport &report) {
  if (!runner.times || !runner.times->last())
    return llvm::Error::success();
  SimulatedRun predicted = TRY(runner.times->simulated(runner.plan()));
  const int64_t batches = command.training ? command.training->source.accumulate : 1;
  const int64_t before = TRY(runner.times->simulatedBeforeLast(runner.plan(), batches));
  report.predicted = {before + predicted.makespan,
                      {},
                      meanBubble(predicted, predicted.makespan),
                      meanBubble(predicted, predicted.longestSpan)};
  if (!command.trace)
    return llvm::Error::success();
  return writeFileFor(
      *command.trace,
      traceFile(*runner.times->last(), predicted,
                command.schedule.empty() ? runner.plan().scheduleName : command.schedule, batches),
      command.force);
}

} // namespace pipec
