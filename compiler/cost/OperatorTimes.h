// Times of a model's operators on this machine, in the way ranks of a pipeline will run them.
#pragma once

#include "compiler/cost/GraphEvaluator.h"
#include "ir/plan/CostTable.h"

namespace pipec {

struct TimingRequest {
  int64_t budgetNs = 10'000'000'000;
  size_t ranks = 1;      // ranks that run at once, limited to this machine's cores
  bool backward = false; // for training
  int64_t mostBytes = 0; // limit for a whole backward; 0: half of this machine's memory
  /// Distinct: operators that are equal get the times of one of them, and the other ranks run one
  /// of each. Not with `backward`.
  Running running = Running::All;
};

/// Medians of runs with one thread, after one to warm up, on what one micro-batch will be: of each
/// operator while the other ranks are at work too, which share caches, memory and its bandwidth,
/// and while none is. The other ranks are the whole model, run again and again on other threads.
/// At least one run counts, however short the budget; if one takes half a second or more and eight
/// do not fit, the first counts too: the model ran for its types before. A sentence in `notes` says
/// when the sum of the operators' times, or of their backwards, is more than 10 % off that of the
/// whole model, or why its backward was not timed. The whole model's forward is timed where eight
/// passes over the model fit the budget. `inputs`: one value per argument. Errors: those of
/// GraphEvaluator.
llvm::Expected<CostTable> timeOperators(Model &model, std::vector<std::string> &notes,
                                        const std::vector<c10::IValue> &inputs,
                                        const TimingRequest &request);

/// A table with one row per top-level operator, without numbers.
CostTable emptyTable(const Model &model);

} // namespace pipec
