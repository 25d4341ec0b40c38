// The training of a reference. Only for runtime/.
#pragma once

#include "ir/autograd/ModelGradients.h"
#include "ir/plan/LossLeaf.h"
#include "runtime/ReferenceImpl.h"
#include "runtime/ReferenceNorms.h"
#include "runtime/training/LearningRates.h"
#include "runtime/training/Optimizer.h"
#include "runtime/training/StepNumbers.h"

namespace pipec {

/// What the micro-batches of one step add up.
struct StepSums {
  std::vector<at::Tensor> scales, losses; // per micro-batch
  std::optional<double> count;            // of a loss that is a pair
  int64_t busyNs = 0;
};

struct ReferenceTraining {
  TrainingOptions options;
  std::vector<TrainedTensor> tensors;
  std::vector<std::pair<std::string, at::Tensor>> frozen; // all other parameters, and their names
  std::vector<at::Tensor> gradients, kept; // per tensor; kept: copies from before clipping
  std::optional<Optimizer> optimizer;
  StepRates rates;
  std::vector<std::string> needsDense; // of each tensor: see whatNeedsDense()
  SkippedSteps skipped;
  ReferenceNorms norms;
  int64_t given = 0;              // as PipelineTraining::given
  bool updating = false;          // an optimizer has begun and not ended
  std::optional<LossLeaves> loss; // known after the first micro-batch
  std::vector<bool> used;         // per tensor: some step gave it a gradient
  /// Per tensor, after a resume: a pipeline's checkpoint lacks the tensors that the method does not
  /// use.
  std::vector<bool> absent;

  /// From the sums of gradients to the update. step: from 0. Throws LibTorch's exceptions. Errors:
  /// those of judge(), an unusable count, a sparse gradient.
  llvm::Expected<TrainedStep> endStep(const StepSums &sums, uint64_t step);
  /// After the forward of micro-batch `k`. Errors: Usage for a parameter that the model has frozen
  /// or unfrozen.
  llvm::Error checkFlags(size_t k) const;
  /// Notes what has a gradient. Errors: Usage for a tensor that should have been in the checkpoint.
  llvm::Error noteUse();
  /// Sets `loss`. Adds a note on what was understood. Errors: Usage.
  /// `shown`: as in lossLeaves().
  llvm::Error findLoss(const Signature &described, const std::vector<bool> &shown,
                       std::vector<std::string> &notes, std::vector<std::string> &warnings);
  /// The path of the loss, as --loss-output names it, or as the steps so far found it. Empty:
  /// neither.
  std::string lossPath(const Signature &signature) const;
};

/// Adds to `signature` the description of tensors in a result, as lossLeaves() needs it.
void describeLeaves(Signature &signature, const std::vector<c10::IValue> &leaves);

} // namespace pipec
