// The part of a pipeline's training that is not on its ranks. Only for runtime/.
#pragma once

#include "runtime/PipelineImpl.h"
#include "runtime/training/LearningRates.h"
#include "runtime/training/StepNumbers.h"

namespace pipec {

struct PipelineTraining {
  StepRates rates;
  SkippedSteps skipped;
};

} // namespace pipec
