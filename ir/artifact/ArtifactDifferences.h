// What changed from one artifact to another, in words: plans, channels, operators, weights.
#pragma once

#include "ir/artifact/PlanDifferences.h"

namespace pipec {

struct ArtifactDifferences {
  /// As comparePlans has them, and: channel (new, gone, retyped), operator (the first that
  /// differs), weight (new, gone, changed), schedule, plan (anything else). Exit code 7 each.
  /// Empty: the artifacts do the same with the same weights.
  std::vector<Finding> findings;
  std::vector<std::string> notes; // versions of tools and format: no difference by themselves
};

/// `now` and `old` are directories of whole artifacts; nothing in them is run. Errors: those of
/// openArtifact and relink, naming the directory.
llvm::Expected<ArtifactDifferences> compareArtifacts(const std::string &now,
                                                     const std::string &old);

} // namespace pipec
