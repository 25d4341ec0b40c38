// Which dimensions of the arguments may be the batch, judged by their sizes alone. Trials decide
// between them.
#pragma once

#include "ir/batch/ArgumentCut.h"
#include "ir/batch/ModelRunner.h"

#include <optional>

namespace pipec {

/// How each argument is cut.
using CutDims = std::vector<ArgumentCut>;

/// One way to cut the arguments.
struct CutCandidate {
  CutDims dims;
  int64_t batch = 0; // samples
  size_t group = 0;  // candidates of one group take the batch from the same tensor
  bool named = true; // false: along dimensions that neither the user nor convention chooses
};

/// Returns the ways to cut `inputs`, the most likely first. The batch is the first dimension of the
/// first tensor, or the dimensions that the user gave (`given`, with the dimension in `signature`).
/// The first candidate of a group cuts all arguments whose first dimension has the size of the
/// batch; of a dict or tuple whose tensors have several sizes, those tensors that have it. Later
/// candidates of the group leave some of these whole, because equal sizes may be a coincidence. If
/// the user named a dimension, candidates along later dimensions of the same size follow. The next
/// group takes the batch from the next tensor, because the first may be a table. Parts of an
/// argument that `signature` has stay as they are: the user gave them. Returns none if no tensor
/// has a dimension. Errors: Usage if the given dimensions disagree.
llvm::Expected<std::vector<CutCandidate>> cutCandidates(const Signature &signature,
                                                        llvm::ArrayRef<c10::IValue> inputs,
                                                        const std::vector<bool> &given);

/// The candidates for models whose first dimension is time: every argument is cut along its second
/// dimension, or along another one of that size; then those with steps first, too, are cut along
/// their second one; then one argument stays whole, such as a mask[steps, steps] of as many steps
/// as samples; then only the first tensor is cut. None if the first tensor's second dimension holds
/// features, or if the user named a dimension.
std::vector<CutCandidate> secondDimensions(const Signature &signature,
                                           llvm::ArrayRef<c10::IValue> inputs,
                                           const std::vector<bool> &given);

/// The candidates for models whose batch is a later dimension, as of x[height, width, channels,
/// samples]: the first tensor is cut along its last dimension, then along the one before it, down
/// to the third one; others along the same dimension, or along another one of that size, as in
/// secondDimensions(). `ofFeatures`: also along the second dimension of a table, which holds
/// features by convention. Few, because each is a trial. None if the user named a dimension.
std::vector<CutCandidate> laterDimensions(const Signature &signature,
                                          llvm::ArrayRef<c10::IValue> inputs,
                                          const std::vector<bool> &given, bool ofFeatures);

/// The candidates for a model that runs at the size of the example only, if it is cut as in `tried`
/// (of cutCandidates(), none named by the user): the first of these, with other arguments than its
/// first one along a later dimension of the same size, such as the state h[layers, samples, width]
/// of x[samples, steps, width]. None of `tried`.
std::vector<CutCandidate> otherDimensions(const std::vector<CutCandidate> &tried,
                                          llvm::ArrayRef<c10::IValue> inputs,
                                          std::vector<bool> given);

/// Whether the user named a dimension for any argument ("none" does not count).
bool anyDimGiven(const Signature &signature, const std::vector<bool> &given);

void setCut(Signature &signature, const CutDims &dims);

} // namespace pipec
