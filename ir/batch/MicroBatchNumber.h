// How many micro-batches a batch is cut into when nobody says.
#pragma once

#include "ir/plan/Plan.h"

#include <ATen/core/ivalue.h>

namespace pipec {

/// The plan's number, or one per sample where the batch has fewer. Where the model takes
/// micro-batches of one size only: as many as there are in the batch. Where no input is cut: 1.
/// Errors: Usage when batch sizes disagree, or the batch is no multiple of that size.
llvm::Expected<int64_t> microBatchNumber(const Plan &plan, llvm::ArrayRef<c10::IValue> inputs);

/// Errors: Usage when the batch has fewer samples than the micro-batches that a schedule names.
llvm::Error checkScheduledNumber(const Signature &signature, llvm::ArrayRef<c10::IValue> inputs,
                                 int64_t microBatches);

} // namespace pipec
