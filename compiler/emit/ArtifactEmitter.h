// Writes a staged model into an artifact's temporary directory.
#pragma once

#include "ir/Model.h"
#include "ir/artifact/ArtifactWriter.h"
#include "ir/schedule/Schedule.h"
#include "ir/support/StableBytes.h"

#include <memory>

namespace pipec {

/// Writes stage-K.pt and stage-K.ir of every stage. `stable` learns the digests of the written
/// weights. Files of at least `pastCacheFrom` bytes bypass the kernel's cache: it would need
/// gigabytes of pages that may not be read here, and would evict as many pages of other files.
/// Errors: IO, Internal.
llvm::Error emitStages(const StagedModel &model, const std::shared_ptr<StableBytes> &stable,
                       int64_t pastCacheFrom, ArtifactWriter &writer);
/// Writes plan.json, schedule.csv and, last, MANIFEST. Errors: IO.
llvm::Error emitPlan(const Plan &plan, const Schedule &schedule, ArtifactWriter &writer);
/// Reads the files as a user will: the plan, verified, with its schedule lowered and checked.
/// Errors: Internal if the files differ from `written`, which has been validated.
llvm::Expected<Plan> readBackPlan(const std::string &directory, const Plan &written);

} // namespace pipec
