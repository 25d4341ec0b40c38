// The --batch-dim that messages suggest.
#pragma once

#include "ir/batch/CutCandidates.h"

namespace pipec {

/// Arguments, each with a dimension of it.
using NamedDims = std::vector<std::pair<size_t, int64_t>>;

/// The dimensions that would make the inputs agree on a batch. They belong to inputs whose tensors
/// lack the batch's size along their first dimension but all have it along one other. Recurrent
/// layers have such states: x[8,20,64], state[2,8,64]. Empty if the inputs agree already, nothing
/// fits, or the signature already says so. A batch dimension of the signature other than the first
/// gives the number of samples. The guess uses sizes alone.
NamedDims suggestedDims(const Signature &signature, llvm::ArrayRef<c10::IValue> inputs);

/// As --batch-dim takes them: "h=1,c=1".
std::string dimsText(const Signature &signature, const NamedDims &dims);

/// The suggestion for messages that no trial can support. Empty if an input after the first may
/// have several rows per sample instead: the size of its first dimension is a multiple of the
/// batch.
std::string suggestBatchDims(const Signature &signature, llvm::ArrayRef<c10::IValue> inputs);

/// The ways to cut the arguments if the user names `dims` beside those of `given`. None if these
/// disagree.
std::vector<CutCandidate> cutsAlong(const NamedDims &dims, Signature signature,
                                    llvm::ArrayRef<c10::IValue> inputs, std::vector<bool> given);

} // namespace pipec
