// The part of a plan that says what is trained.
#pragma once

#include "ir/Model.h"
#include "ir/SourceMode.h"
#include "ir/plan/LossLeaf.h"
#include "ir/support/Error.h"

namespace pipec {

/// Returns the training part of the plan of these stages. `loss`: the output leaves. `path`,
/// `mode`: the source, whose module gives the order of the parameters. Every stage is marked as
/// able to split its backward until a run shows otherwise. Errors: those of loadSource; Unsupported
/// for two different trained tensors that share memory, and for trained tensors inside lists and
/// objects.
llvm::Expected<TrainingPlan> trainingPlanOf(const StagedModel &model, const Plan &plan,
                                            const LossLeaves &loss, const std::string &path,
                                            const SourceMode &mode);

} // namespace pipec
