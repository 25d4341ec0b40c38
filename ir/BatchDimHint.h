// What to say when the inputs' sizes suggest another batch dimension than the first.
#pragma once

#include "ir/plan/Plan.h"

#include <ATen/core/ivalue.h>

namespace pipec {

/// The --batch-dim that would make the inputs agree on a batch, as "state=1": for inputs whose
/// tensors lack the batch's size along their first dimension but all have it along one other.
/// Recurrent layers have such states: x[8,20,64], state[2,8,64]. Empty when the inputs agree
/// already, nothing fits, or the signature has all of it. A guess from sizes alone: for help texts
/// and notes only.
std::string suggestBatchDims(const Signature &signature, llvm::ArrayRef<c10::IValue> inputs);

/// Where the user has named the batch dimension of some arguments: sets that of others that are
/// not cut to the first along which all of their tensors have `batch`; gives their indices. A guess
/// that a trial has to confirm; none where no dimension was named.
std::vector<size_t> guessOtherDims(Signature &signature, llvm::ArrayRef<c10::IValue> inputs,
                                   const std::vector<bool> &given, int64_t batch);

/// Whether the user named a dimension, not only arguments without one.
bool anyDimGiven(const Signature &signature, const std::vector<bool> &given);

} // namespace pipec
