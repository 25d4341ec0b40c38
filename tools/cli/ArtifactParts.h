// What a reproducer holds of an artifact.
#pragma once

#include "tools/cli/ToolMain.h"

namespace pipec {

/// The texts plan.json and schedule.csv when `path` is an artifact, no stage and no weight; what
/// cannot be read is left out. For a .pt nothing but a sentence.
ReproducerParts artifactParts(const std::string &path);

} // namespace pipec
