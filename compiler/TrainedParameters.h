// The part of a plan that says what is trained.
#pragma once

#include "ir/Model.h"
#include "ir/plan/LossLeaf.h"
#include "ir/torchfile/SourceCopies.h"

namespace pipec {

/// Returns the training part of the plan of these stages. `loss`: the output leaves. `copies`: of
/// the source, whose module gives the order of the parameters. Every stage is marked as able to
/// split its backward until a run shows otherwise. Errors: those of SourceCopies::next; Unsupported
/// for two different trained tensors that share memory, and for trained tensors inside objects and
/// those containers that open-weight-lists leaves.
llvm::Expected<TrainingPlan> trainingPlanOf(const StagedModel &model, const Plan &plan,
                                            const LossLeaves &loss, SourceCopies &copies);

} // namespace pipec
