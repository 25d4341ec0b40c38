// The pictures that pipe-inspect makes of an artifact: its page, its schedule, and the schedule as
// PyTorch's table.
#pragma once

#include "ir/artifact/ArtifactCheck.h"
#include "ir/schedule/Schedule.h"
#include "tools/report/MeasuredRun.h"
#include "tools/report/PlanTiming.h"

namespace pipec {

/// The times of the artifact's schedule, with all its micro-batches. Errors: BadArtifact.
llvm::Expected<PlanTiming> timeArtifact(const Artifact &artifact, const Schedule &rows);

/// The schedule for a terminal: with times if the plan has costs, else one step per action. Errors:
/// BadArtifact.
llvm::Expected<std::string> drawSchedule(const Artifact &artifact, const Schedule &rows,
                                         const PlanTiming &timed);

/// The HTML page. `measured`: of a trace; null: none. Errors: BadArtifact.
llvm::Expected<std::string> pageOf(const Artifact &artifact, const Schedule &rows,
                                   const ArtifactCheck &check, const MeasuredRun *measured);

/// Reads a trace of pipe-run --trace. Errors: IO, Unreadable, and those of measuredRunFrom.
llvm::Expected<MeasuredRun> readTrace(const std::string &path, const Plan &plan);

/// The schedule as PyTorch's table with sends and receives. Errors: BadArtifact; Usage for a plan
/// that PyTorch cannot run.
llvm::Expected<std::string> torchCommsOf(const Plan &plan, const Schedule &rows);

} // namespace pipec
