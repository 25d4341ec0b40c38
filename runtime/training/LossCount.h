// Losses: one element, or a pair of a sum and the count of what it sums.
#pragma once

#include "ir/support/Error.h"

#include <ATen/core/ivalue.h>

namespace pipec {

/// The loss that a micro-batch returned. Errors: Usage for a value that is no tensor of one
/// element, and if anything is trained for one without a gradient, whose backward PyTorch refuses.
llvm::Error checkLoss(const c10::IValue &value, bool anyTrained);

/// The count that micro-batch `microBatch` returned. Errors: Usage for a value that is no number,
/// and for a tensor that requires gradients, which would be lost.
llvm::Expected<double> lossCount(const c10::IValue &value, size_t microBatch);

/// Refuses LossReduction beside such a pair.
llvm::Error pairWithReduction();

/// Whether sums can be divided by it.
bool isUsableCount(double count);
/// Says why they cannot.
llvm::Error unusableCount(double count);

} // namespace pipec
