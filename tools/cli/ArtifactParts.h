// The parts of an artifact in a reproducer.
#pragma once

#include "tools/cli/ToolMain.h"

namespace pipec {

/// The texts plan.json and schedule.csv if `path` is an artifact, without stages and weights. Files
/// that cannot be read are left out. For a .pt file it is only a sentence.
ReproducerParts artifactParts(const std::string &path);

} // namespace pipec
