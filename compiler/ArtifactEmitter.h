// Writes a staged model into an artifact's temporary directory.
#pragma once

#include "ir/Model.h"
#include "ir/artifact/ArtifactDir.h"

namespace pipec {

/// stage-K.pt and stage-K.ir of every stage. Errors: IO, Internal.
llvm::Error emitStages(const StagedModel &model, ArtifactWriter &writer);
/// plan.json and schedule.csv. Errors: IO, Internal when the plan does not verify.
llvm::Error emitPlan(const Plan &plan, ArtifactWriter &writer);

} // namespace pipec
