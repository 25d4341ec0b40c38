// The content of an artifact for pipe-inspect, as text or as JSON.
#pragma once

#include "ir/artifact/ArtifactReader.h"
#include "ir/schedule/Schedule.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

namespace pipec {

/// `timeline`: the drawn schedule; empty: none.
void printArtifact(llvm::raw_ostream &out, const Artifact &artifact, const std::string &timeline);
llvm::json::Object artifactJson(const Artifact &artifact, const Schedule &rows);

} // namespace pipec
