// Reads the text of plan.json.
#pragma once

#include "ir/plan/Plan.h"

namespace pipec {

/// Errors: BadArtifact with the JSON path of the problem (unknown key at the same minor, missing
/// key, wrong type, number out of range) or with the message of verify(); Version for another major
/// or an unknown required feature, naming both versions. Warnings (unknown keys of a newer minor)
/// are appended to `warnings`.
llvm::Expected<Plan> planFromJson(llvm::StringRef text, std::vector<std::string> &warnings);

} // namespace pipec
