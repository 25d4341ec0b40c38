// Reads an artifact: its bytes are verified before they are used. No LibTorch.
#pragma once

#include "ir/artifact/Finding.h"
#include "ir/plan/Plan.h"

#include <optional>
#include <string>
#include <vector>

namespace pipec {

/// Checks integrity only; nothing is deserialised. Order: directory, MANIFEST syntax and size,
/// names (no path, no link), sizes, digests, extra files. Codes: no-artifact (no directory, no
/// MANIFEST), io-error, bad-manifest, missing-file, not-a-file (link, directory, second hard link),
/// too-large, changed-file, extra-file.
std::vector<Finding> checkIntegrity(const std::string &directory);

/// An artifact whose bytes agree with its MANIFEST and whose plan is valid.
struct Artifact {
  std::string directory;
  std::string id; // sha256 of MANIFEST
  Plan plan;
  std::string scheduleCsv;
  std::vector<std::string> warnings;
  std::string stagePath(size_t stage) const;
};
/// Errors: IO, BadArtifact (first finding), Version.
llvm::Expected<Artifact> openArtifact(const std::string &directory);

/// Names of the files of the stages that evaluate begin with it: eval-plan.json, eval-0.pt, ...
constexpr const char *kEvaluationPrefix = "eval-";

/// The stages in eval mode beside those of a training (pipe-compile --evaluation), as an artifact
/// of inference; nothing: it has none. Their schedule is made for their ranks. `training` must be
/// what openArtifact or openArtifactPlan returned. Errors: IO, BadArtifact, Version.
llvm::Expected<std::optional<Artifact>> evaluationOf(const Artifact &training);

/// The same for callers that read only plan and schedule: their two digests are compared, stage
/// files are not opened.
llvm::Expected<Artifact> openArtifactPlan(const std::string &directory);

} // namespace pipec
