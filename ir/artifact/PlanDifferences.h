// Describes the differences between two plans.
#pragma once

#include "ir/artifact/Finding.h"
#include "ir/plan/Plan.h"

namespace pipec {

/// Appends one finding per difference: source, method, signature, merge-rule, stages, module-moved,
/// tie, normalisation, option. Channels and weights are compared with the stage files, see
/// ArtifactDifferences.h. Versions are not compared.
void comparePlans(const Plan &old, const Plan &now, std::vector<Finding> &findings);

/// "2, before 3": the form of all messages about changes.
std::string changedFrom(const std::string &now, const std::string &before);

/// A finding about a difference: exit code 7.
Finding differenceFound(std::string code, std::string where, std::string message);

} // namespace pipec
