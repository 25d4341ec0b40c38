// Writes a staged model into an artifact's temporary directory.
#pragma once

#include "ir/Model.h"
#include "ir/artifact/ArtifactDir.h"

namespace pipec {

/// stage-K.pt and stage-K.ir of every stage. Errors: IO, Internal.
llvm::Error emitStages(const StagedModel &model, ArtifactWriter &writer);
/// plan.json, schedule.csv and, last, MANIFEST. Errors: IO.
llvm::Error emitPlan(const Plan &plan, ArtifactWriter &writer);
/// What a reader of the files will see: the plan, verified, with its schedule lowered and checked.
/// Errors: Internal when the files do not say what `written` says, which has been validated.
llvm::Expected<Plan> readBackPlan(const std::string &directory, const Plan &written);

} // namespace pipec
