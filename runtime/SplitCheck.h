// Whether the two parts of a split backward give the gradients of the whole one.
#pragma once

#include "ir/artifact/ArtifactReader.h"
#include "ir/autograd/SerialTrainer.h"

namespace pipec {

/// Trains the stages on one micro-batch twice, one after the other: with the whole backward (B),
/// and with I and W in the stages that the plan says can be split. The stages are loaded anew, on
/// the CPU, with the weights of the files; random operators draw the same numbers both times. One
/// argument per input of the signature; they stay as they are. Errors: Mismatch naming the first
/// stage and weight whose gradients have other bits; those of loading and running the stages.
llvm::Error checkSplitBackwards(const Artifact &artifact,
                                const std::vector<c10::IValue> &microBatch);

/// The comparison of both. Error: Mismatch.
llvm::Error compareBackwards(const Plan &plan, const TrainedMicroBatch &whole,
                             const TrainedMicroBatch &split);

} // namespace pipec
