// The training of a reference. Only for runtime/.
#pragma once

#include "ir/autograd/ModelGradients.h"
#include "runtime/ReferenceImpl.h"
#include "runtime/training/LearningRates.h"
#include "runtime/training/Optimizer.h"
#include "runtime/training/StepNumbers.h"

namespace pipec {

struct ReferenceTraining {
  TrainingOptions options;
  std::vector<TrainedTensor> tensors;
  std::vector<at::Tensor> gradients, kept; // per tensor; kept: copies from before clipping
  std::optional<Optimizer> optimizer;
  StepRates rates;
  SkippedSteps skipped;
  bool updating = false;      // an optimizer has begun and not ended
  std::optional<size_t> loss; // output leaf, known after the first micro-batch
  std::vector<bool> used;     // per tensor: some step gave it a gradient
  /// Per tensor, after a resume: the checkpoint of a pipeline lacks what the method does not use.
  std::vector<bool> absent;

  /// Notes what has a gradient. Errors: Usage for a tensor that should have been in the checkpoint.
  llvm::Error noteUse();
};

} // namespace pipec
