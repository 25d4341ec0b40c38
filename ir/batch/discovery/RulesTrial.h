// Merge rules of results that the usual experiments do not show: results that are 0 or not finite
// in them, and reductions that follow labels which are equal in the example.
#pragma once

#include "ir/batch/discovery/CheckResults.h"
#include "ir/batch/discovery/CutWay.h"

namespace pipec {

/// Whole batches with other values, and the results that they decide about.
struct RulesTrial {
  std::vector<Halves> ran;
  std::vector<size_t> leaves;
};

/// Runs the model with other values (tryOtherValues) if results need it: the usual example, with
/// finite results other than 0 and different labels, costs no run. Sets the rules that these runs
/// confirm. A rule that they contradict becomes a list, or the mean for a single fraction, as a
/// loss is. `doubtful`: results that may equal the rule by coincidence.
RulesTrial tryRules(CutWay &way, const TrialLeaves &leaves, llvm::ArrayRef<size_t> doubtful,
                    bool drawsRandom, ModelRuns runAll);

/// After the checks of the usual experiments: these runs' differences count as well, and equal
/// results count where nothing was tried.
void takeChecks(CutWay &way, const RulesTrial &trial);

} // namespace pipec
