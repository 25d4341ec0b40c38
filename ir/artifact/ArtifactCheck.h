// All checks of an artifact that need no run of model code.
#pragma once

#include "ir/artifact/ArtifactReader.h"

namespace pipec {

/// One check: "integrity", "plan", "schedule", "stages", "proof".
struct CheckStep {
  enum class Result { Passed, Failed, Skipped };
  std::string name;
  Result result = Result::Skipped;
  std::string detail; // what passed, in words; Skipped: the reason
};

struct ArtifactCheck {
  std::string id; // of the artifact; empty when MANIFEST cannot be read
  std::vector<CheckStep> steps;
  std::vector<Finding> findings; // beside those of checkIntegrity: bad-plan, version, bad-schedule,
                                 // bad-stage, not-proved
  std::vector<std::string> warnings;
};

/// Compares the files with MANIFEST, reads plan.json, checks that schedule.csv and the plan lower
/// to a program that can run, compares each stage file with the plan's description of it, and
/// compares the linked stages with the source's digest. No stage file is deserialised unless all
/// digests agree.
ArtifactCheck checkArtifact(const std::string &directory);

/// The checks between the first and the last. The artifact's files must be those that MANIFEST
/// lists. Checks that the schedule fits the plan and that the stage files load and match the plan.
/// A stage file that needs a library which was not loaded is appended to `unchecked` and is no
/// error. Errors: BadArtifact, IO.
llvm::Error checkParts(const Artifact &artifact, std::vector<std::string> &unchecked);

/// The last check: the linked stages are the source whose digest the plan has, and they hold what
/// the obligations say. Reads every weight once. Errors: BadArtifact, naming the stage if it is
/// known.
llvm::Error proveStages(const std::string &directory, const Plan &plan);

} // namespace pipec
