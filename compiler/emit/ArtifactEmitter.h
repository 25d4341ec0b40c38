// Writes a staged model into an artifact's temporary directory.
#pragma once

#include "ir/Model.h"
#include "ir/artifact/ArtifactDir.h"
#include "ir/schedule/Schedule.h"
#include "ir/support/StableBytes.h"

#include <memory>

namespace pipec {

/// stage-K.pt and stage-K.ir of every stage. `stable` learns digests of weights that are written.
/// From `pastCacheFrom` bytes in it on the disk gets files from us: the kernel's cache would have
/// to find gigabytes for pages that may not be read here, and would push out as much of others.
/// Errors: IO, Internal.
llvm::Error emitStages(const StagedModel &model, const std::shared_ptr<StableBytes> &stable,
                       int64_t pastCacheFrom, ArtifactWriter &writer);
/// plan.json, schedule.csv and, last, MANIFEST. Errors: IO.
llvm::Error emitPlan(const Plan &plan, const Schedule &schedule, ArtifactWriter &writer);
/// What a reader of the files will see: the plan, verified, with its schedule lowered and checked.
/// Errors: Internal when the files do not say what `written` says, which has been validated.
llvm::Expected<Plan> readBackPlan(const std::string &directory, const Plan &written);

} // namespace pipec
