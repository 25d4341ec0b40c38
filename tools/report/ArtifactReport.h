// The content of an artifact for pipe-inspect, as text or as JSON.
#pragma once

#include "ir/artifact/ArtifactReader.h"
#include "ir/schedule/Schedule.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include "tools/report/PlanTiming.h"

namespace pipec {

/// `timing`: of all micro-batches, for the expected step of a training. `timeline`: the drawn
/// schedule; empty: none.
void printArtifact(llvm::raw_ostream &out, const Artifact &artifact, const Schedule &rows,
                   const PlanTiming &timing, const std::string &timeline);
llvm::json::Object artifactJson(const Artifact &artifact, const Schedule &rows,
                                const PlanTiming &timing);

} // namespace pipec
