// The output of pipe-merge: tables, warnings and notes for people, documents for programs.
#pragma once

#include "compiler/Merge.h"
#include "compiler/MergeInto.h"
#include "llvm/Support/JSON.h"

namespace pipec {

/// Paths as they were given; empty: not given.
struct MergeRequest {
  std::string artifact, output, into, state, checkpoint;
};

/// To stderr.
void noteMerge(const MergeRequest &request, const MergeReport &report);
void noteMergeInto(const MergeRequest &request, const MergeIntoReport &report);

void printMerge(llvm::raw_ostream &out, const MergeRequest &request, const MergeReport &report);
void printMergeInto(llvm::raw_ostream &out, const MergeRequest &request,
                    const MergeIntoReport &report);

/// The documents of --json, without the effective options.
llvm::json::Object mergeJson(const MergeReport &report);
llvm::json::Object mergeIntoJson(const MergeIntoReport &report);

} // namespace pipec
