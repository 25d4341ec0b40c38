// What to say when the inputs' sizes suggest another batch dimension than the first.
#pragma once

#include "ir/plan/Plan.h"

#include <ATen/core/ivalue.h>

namespace pipec {

/// The --batch-dim that would make the inputs agree on a batch, as "state=1": for inputs whose
/// tensors lack the batch's size along their first dimension but all have it along one other.
/// Recurrent layers have such states: x[8,20,64], state[2,8,64]. Empty when the inputs agree
/// already or nothing fits. A guess from sizes alone: for help texts and notes only.
std::string suggestBatchDims(const Signature &signature, llvm::ArrayRef<c10::IValue> inputs);

} // namespace pipec
