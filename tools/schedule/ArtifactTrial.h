// The schedule of an artifact, read without LibTorch.
#pragma once

#include "tools/schedule/ScheduleTrial.h"

namespace pipec {

/// Whether `path` is a directory with a plan.
bool isArtifact(const std::string &path);

/// The schedule of an artifact, with its plan's costs, timed as pipe-inspect times it. Only the
/// plan and the schedule are read: pipe-check compares digests and stages. Errors: IO; BadArtifact
/// and Version for the plan. A schedule that does not fit the plan is in Trial::why.
llvm::Expected<Trial> tryArtifact(const std::string &directory);

} // namespace pipec
