// The data of a pipeline that trains, besides that of its ranks. Only for runtime/.
#pragma once

#include "ir/plan/Plan.h"
#include "runtime/training/LearningRates.h"
#include "runtime/training/RootScale.h"
#include "runtime/training/StepNumbers.h"

namespace pipec {

struct PipelineTraining {
  StepRates rates;
  SkippedSteps skipped;
  LossReduction reduction = LossReduction::Mean;

  std::vector<at::Tensor> scalesOf(const TrainingPlan &plan,
                                   const std::vector<int64_t> &samples) const {
    return plan.count ? rootScalesOfSums(samples.size()) : rootScales(samples, reduction);
  }
};

} // namespace pipec
