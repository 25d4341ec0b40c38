// What a trial says of the signature: the tree of the result, sizes of inputs and leaves, and the
// values of each leaf.
#pragma once

#include "ir/batch/discovery/CheckResults.h"
#include "ir/batch/discovery/MergeRules.h"

namespace pipec {

/// Sets the tree that all results of the trial share. Containers whose length or keys differ
/// between results are leaves.
void describeResults(Signature &signature, const CutTrial &trial);

/// The leaves of each result, by call. Errors: Other when a result does not have the signature's
/// tree.
llvm::Expected<std::vector<Values>> leavesOf(const Signature &signature,
                                             const Experiment &experiment);
/// The same of all experiments of a trial.
llvm::Expected<TrialLeaves> leavesOf(const Signature &signature, const CutTrial &trial);

/// Whether the whole batch and its parts ran, and some result has another tree than the signature.
bool differInStructure(const Signature &signature, const Halves &halves);

/// Compares the merged parts with the whole batch, per leaf. Returns nullopt if they did not run or
/// a result has another tree than the signature. `samples`: of each part.
std::optional<std::vector<ResultCheck>>
checkHalves(const Signature &signature, const Halves &halves, llvm::ArrayRef<int64_t> samples);

/// The same of a model that takes only multiples of the example's size: two micro-batches against
/// both together.
std::vector<ResultCheck> checkDoubled(const Signature &signature, const CutTrial &trial,
                                      bool drawsRandom);

LeafEvidence evidenceOf(const CutTrial &trial, const TrialLeaves &leaves, size_t leaf);

/// Sets the sizes of the inputs as functions of the batch, as resizing made them.
void describeInputs(Signature &signature, const CutTrial &trial);

/// The spec of a value that is one tensor in every run. `bytes` are those of the example.
TensorSpec specOver(llvm::ArrayRef<std::pair<int64_t, c10::IValue>> seen,
                    const c10::IValue &example);

/// For a signature of which no input is cut: keeps the known sizes, as sizes that differ from call
/// to call.
void keepWhole(Signature &signature);

} // namespace pipec
