// Guesses, from sizes alone, of the dimension along which each input is cut.
#pragma once

#include "ir/plan/Plan.h"

#include <ATen/core/ivalue.h>

#include <optional>

namespace pipec {

/// Fills in batchDim where it was not given; returns the example's batch size, 0 when nothing has
/// one. Errors: Usage when the given batch dimensions disagree.
llvm::Expected<int64_t> guessBatchDims(Signature &signature, llvm::ArrayRef<c10::IValue> inputs,
                                       const std::vector<bool> &given);

/// The next guess, for when no result follows this one: the first tensor is given whole from now
/// on, and the next one says what the batch is. Whether there is one. Where the user named a
/// dimension, nothing is left out.
bool leaveOutGuess(std::vector<bool> &given, const Signature &signature,
                   llvm::ArrayRef<c10::IValue> inputs);

/// The --batch-dim that would make the inputs agree on a batch, as "state=1": for inputs whose
/// tensors lack the batch's size along their first dimension but all have it along one other.
/// Recurrent layers have such states: x[8,20,64], state[2,8,64]. Empty when the inputs agree
/// already, nothing fits, or the signature has all of it. A batch dimension of the signature other
/// than the first says how many samples there are. A guess from sizes alone: for help texts
/// and notes only.
std::string suggestBatchDims(const Signature &signature, llvm::ArrayRef<c10::IValue> inputs);

/// The batch dimension of each input.
using BatchDims = std::vector<std::optional<int64_t>>;

/// Where the user has named the batch dimension of some arguments, and cutting the others along
/// their first dimension (as `signature` says) fails: other guesses, the likeliest first. Those
/// that are not cut get the first dimension along which all of their tensors have `batch`; those
/// that have it along the first, perhaps by chance as two layers of state for two samples, another
/// one. A trial has to confirm a guess; there is none where no dimension was named.
std::vector<BatchDims> otherBatchDims(const Signature &signature,
                                      llvm::ArrayRef<c10::IValue> inputs,
                                      const std::vector<bool> &given, int64_t batch);

void setBatchDims(Signature &signature, const BatchDims &dims);

/// Whether the user named a dimension, not only arguments without one.
bool anyDimGiven(const Signature &signature, const std::vector<bool> &given);

} // namespace pipec
