// The stages' training held against the source's: loss and every gradient.
#pragma once

#include "compiler/ExampleRuns.h"

namespace pipec {

/// What was compared.
struct ComparedGradients {
  size_t gradients = 0;              // that reach a tensor, of one run
  size_t tied = 0;                   // of these: summed over stages, in another order
  std::vector<std::string> whyWhole; // per stage: why its backward cannot be split; empty: it can
  std::vector<std::string> warnings; // of losses that are not finite
};

/// The runs for compareGradients(): the example, and the first run of each other batch size. The
/// forwards already show that other values of the same sizes give equal bits.
std::vector<ExampleRun> runsToTrain(llvm::ArrayRef<ExampleRun> runs);

/// Trains the stages in `directory`, one after the other, and the source on the same micro-batches;
/// random operators draw from one seed. Loss and gradients must be bit-identical with whole
/// backwards, and on the first run with split ones; where a weight is used by several stages its
/// gradient may be off by a relative L2 of 1e-6, or 8 roundings of a narrower dtype. Sets
/// requiresGrad of plan.channels as the run shows it. `loss`: the output leaf. Errors: Internal
/// naming the first gradient that differs and both numbers; Usage where the source's own backward
/// fails.
llvm::Expected<ComparedGradients> compareGradients(const std::string &path, const SourceMode &mode,
                                                   const std::string &directory, Plan &plan,
                                                   size_t loss, llvm::ArrayRef<ExampleRun> runs);

} // namespace pipec
