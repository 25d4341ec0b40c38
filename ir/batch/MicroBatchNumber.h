// The default number of micro-batches of a batch.
#pragma once

#include "ir/plan/Plan.h"

#include <ATen/core/ivalue.h>

namespace pipec {

/// The plan's number, or one per sample if the batch has fewer samples. If the model accepts only
/// one micro-batch size: the number of such micro-batches in the batch. If no input is cut: 1. Of
/// several replicas, each of which has as many: the number for all. Errors: Usage if batch sizes
/// disagree, if the batch is not a multiple of that size, or if replicas cannot have as many.
llvm::Expected<int64_t> microBatchNumber(const Plan &plan, llvm::ArrayRef<c10::IValue> inputs,
                                         int64_t replicas = 1);

/// Errors: Usage if the batch has fewer samples than the schedule has micro-batches.
llvm::Error checkScheduledNumber(const Signature &signature, llvm::ArrayRef<c10::IValue> inputs,
                                 int64_t microBatches);

} // namespace pipec
