// The --batch-dim that messages suggest after a trial of it.
#pragma once

#include "ir/batch/discovery/CutWay.h"

#include <optional>

namespace pipec {

/// Where a suggestion is sought: the inputs and the trials so far.
struct SuggestionSearch {
  const Signature &untried; // before any way to cut is chosen
  const Values &inputs;
  const std::vector<bool> &given;    // DiscoveryOptions::batchDimGiven
  const std::vector<CutDims> &tried; // ways that did not win
  const CutWay *best = nullptr;      // of the ways so far; null: none runs
};

/// Runs the example in a way; nullopt if the example does not run in it.
using TryWay = llvm::function_ref<llvm::Expected<std::optional<CutWay>>(const CutCandidate &)>;

/// A --batch-dim that the sizes of the inputs suggest and of which a trial fits better than the
/// best way so far; empty: none. What was tried did not win. `signature`: the best way's.
std::string triedSuggestion(const Signature &signature, const SuggestionSearch &search,
                            TryWay tryWay);

/// Adds to the help of an error that these dimensions may be the batch.
llvm::Error withSuggestion(llvm::Error error, const std::string &dims);

} // namespace pipec
