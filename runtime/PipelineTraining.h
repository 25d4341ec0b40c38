// The part of a pipeline's training that is not on its ranks. Only for runtime/.
#pragma once

#include "runtime/PipelineImpl.h"
#include "runtime/training/LearningRates.h"
#include "runtime/training/RootScale.h"
#include "runtime/training/StepNumbers.h"

namespace pipec {

struct PipelineTraining {
  StepRates rates;
  SkippedSteps skipped;
  bool mustVerifySplit = false;
  LossReduction reduction = LossReduction::Mean;
  int64_t given = 0; // micro-batches of the last step, if the caller cut them; else 0

  /// `memory`: the list of an earlier step, which is used again.
  std::vector<at::Tensor> scalesOf(const TrainingPlan &plan, const std::vector<int64_t> &samples,
                                   std::vector<at::Tensor> memory) const {
    return plan.count ? rootScalesOfSums(samples.size(), std::move(memory))
                      : rootScales(samples, reduction, std::move(memory));
  }
};

} // namespace pipec
