// Everything that can be said about an artifact without running model code.
#pragma once

#include "ir/artifact/ArtifactDir.h"

namespace pipec {

/// One thing that was looked at: "integrity", "plan", "schedule", "stages", "proof".
struct CheckStep {
  enum class Result { Passed, Failed, Skipped };
  std::string name;
  Result result = Result::Skipped;
  std::string detail; // what passed, in words; for Skipped: why
};

struct ArtifactCheck {
  std::string id; // of the artifact; empty when MANIFEST cannot be read
  std::vector<CheckStep> steps;
  std::vector<Finding> findings; // beside those of checkIntegrity: bad-plan, version, bad-schedule,
                                 // bad-stage, not-proved
  std::vector<std::string> warnings;
};

/// Files against MANIFEST; plan.json; schedule.csv against the plan (it lowers to a program that
/// can be run); each stage file against the plan's description of it; the stages linked together
/// against the source's digest. No stage file is deserialised unless all digests agree.
ArtifactCheck checkArtifact(const std::string &directory);

/// The steps between the first and the last, of an artifact whose files are what MANIFEST lists:
/// its schedule fits its plan, its stage files load and are what the plan says. A stage file that
/// needs a library which was not loaded is named in `unchecked` and is no error. Errors:
/// BadArtifact, IO.
llvm::Error checkParts(const Artifact &artifact, std::vector<std::string> &unchecked);

/// The last step of it: the stages linked together are the source whose digest the plan has, and
/// they hold what the obligations say. Reads every weight once. Errors: BadArtifact, naming the
/// stage where it can.
llvm::Error proveStages(const std::string &directory, const Plan &plan);

} // namespace pipec
