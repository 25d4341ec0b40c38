// Describes the differences between two artifacts: plans, channels, operators, weights.
#pragma once

#include "ir/artifact/PlanDifferences.h"

namespace pipec {

struct ArtifactDifferences {
  /// The findings of comparePlans, and: channel (new, gone, retyped), operator (the first that
  /// differs), weight (new, gone, changed), schedule, plan (anything else). Each has exit code 7.
  /// Empty: the artifacts compute the same with the same weights. Those of the
  /// stages that evaluate begin with "evaluation: ".
  std::vector<Finding> findings;
  std::vector<std::string> notes; // versions of tools and format, which are no difference
};

/// `now` and `old` are directories of complete artifacts. No model code runs. Errors: those of
/// openArtifact and relink, naming the directory.
llvm::Expected<ArtifactDifferences> compareArtifacts(const std::string &now,
                                                     const std::string &old);

} // namespace pipec
