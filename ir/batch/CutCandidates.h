// Which dimensions of the arguments may be the batch, by their sizes alone. A trial decides.
#pragma once

#include "ir/batch/ModelRunner.h"
#include "ir/plan/Plan.h"

#include <optional>

namespace pipec {

/// The batch dimension of each argument; nullopt: given whole to every micro-batch.
using CutDims = std::vector<std::optional<int64_t>>;

/// One way to cut the arguments.
struct CutCandidate {
  CutDims dims;
  int64_t batch = 0; // samples
  size_t group = 0;  // candidates of one group take the batch from the same tensor
  bool named = true; // false: along dimensions that neither the user nor convention names
};

/// Ways to cut `inputs`, the likeliest first. The batch is the first dimension of the first tensor,
/// or of those whose dimension the user gave (`given`, with the dimension in `signature`). The
/// first candidate of a group cuts all arguments that have the size of the batch along their first
/// dimension. Those that follow leave some of them whole, which may have that size by coincidence.
/// Where the user named a dimension, later dimensions of the same size follow. The next group takes
/// the batch from the next tensor, the first one being a table, say. None: no tensor has a
/// dimension. Errors: Usage when the given dimensions disagree.
llvm::Expected<std::vector<CutCandidate>> cutCandidates(const Signature &signature,
                                                        llvm::ArrayRef<c10::IValue> inputs,
                                                        const std::vector<bool> &given);

/// The second dimension as the batch, of models whose first one is time: every argument along the
/// second dimension or another one of that size. Nullopt: the first tensor's second dimension holds
/// features, or the user named a dimension.
std::optional<CutCandidate> secondDimension(const Signature &signature,
                                            llvm::ArrayRef<c10::IValue> inputs,
                                            const std::vector<bool> &given);

/// The --batch-dim that would make the inputs agree on a batch, as "state=1": for inputs whose
/// tensors lack the batch's size along their first dimension but all have it along one other.
/// Recurrent layers have such states: x[8,20,64], state[2,8,64]. Empty when the inputs agree
/// already, nothing fits, or the signature has all of it. A batch dimension of the signature other
/// than the first says how many samples there are. A guess from sizes alone: for help texts.
std::string suggestBatchDims(const Signature &signature, llvm::ArrayRef<c10::IValue> inputs);

/// Whether the user named a dimension, not only arguments without one.
bool anyDimGiven(const Signature &signature, const std::vector<bool> &given);

void setCut(Signature &signature, const CutDims &dims);

} // namespace pipec
