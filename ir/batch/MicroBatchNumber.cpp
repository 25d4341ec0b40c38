#include "ir/batch/MicroBatchNumber.h"

#include "ir/batch/FixedBatch.h"
#include "ir/batch/MicroBatch.h"
#include "ir/plan/PlanNames.h"
#include "ir/support/Try.h"
#include "ir/support/Words.h"

#include <fmt/format.h>

namespace pipec {

llvm::Expected<int64_t> microBatchNumber(const Plan &plan, llvm::ArrayRef<c10::IValue> inputs,
                                         int64_t replicas) {
  const Signature &signature = plan.signature;
  if (!isCut(signature) && replicas > 1)
    return makeError(ExitCode::Usage,
                     fmt::format("batch: expected an input with a batch dimension, whose parts {} "
                                 "replicas can have, got none",
                                 replicas),
                     "run it without replicas");
  if (!isCut(signature))
    return 1;
  int64_t samples = TRY(batchSize(signature, inputs));
  if (signature.batchSymbolic || signature.batchSize == 0) {
    if (replicas > 1 && samples < replicas)
      return makeError(ExitCode::Usage,
                       fmt::format("batch: expected at least one sample for each of {} replicas, "
                                   "got {}",
                                   replicas, counted(static_cast<size_t>(samples), "sample")),
                       "choose --batch so that the last batch of an epoch has enough samples");
    return std::max<int64_t>(1, std::min(plan.microBatches, samples / replicas)) * replicas;
  }
  if (samples == 0 || samples % signature.batchSize != 0)
    return makeError(
        ExitCode::Usage,
        fmt::format("batch: expected a multiple of {} ({} fix the size of a micro-batch), got {}",
                    counted(static_cast<size_t>(signature.batchSize), "sample"),
                    whatFixesBatch(signature, inputs), samples),
        howToFreeBatch(signature));
  return samples / signature.batchSize;
}

llvm::Error checkScheduledNumber(const Signature &signature, llvm::ArrayRef<c10::IValue> inputs,
                                 int64_t microBatches) {
  if (!isCut(signature) || microBatches == 1)
    return llvm::Error::success();
  int64_t samples = TRY(batchSize(signature, inputs));
  if (samples >= microBatches)
    return llvm::Error::success();
  return makeError(
      ExitCode::Usage,
      fmt::format("batch: expected at least {}, one sample per micro-batch of the schedule, got {}",
                  counted(static_cast<size_t>(microBatches), "sample"), samples),
      "--schedule forward-only accepts any number of micro-batches");
}

} // namespace pipec
