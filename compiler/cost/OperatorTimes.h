// Times of a model's operators on this machine, in the way ranks of a pipeline will run them.
#pragma once

#include "compiler/cost/GraphEvaluator.h"
#include "ir/costs/CostTable.h"

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

/// Times each operator on one micro-batch, with one thread: the median of several runs, once with
/// the other ranks idle and once with them busy, since ranks share caches, memory and bandwidth.
/// A busy rank is a thread that runs the whole model again and again. The first run is a warm-up
/// and does not count, unless a run takes half a second or more and eight do not fit the budget.
/// At least one run counts. The whole model's forward is timed if eight passes over the model fit
/// the budget. `notes` gets a sentence if the sum of the operators' times is more than 10 % off
/// that of the whole model. With `backward` every run also times a training's pass over the whole
/// model, and the operators' times are scaled so that they add up to it: a note comes if they
/// differ by more than half, or if there is no such pass. `inputs`: one value per argument. Errors:
/// those of GraphEvaluator.
llvm::Expected<CostTable> timeOperators(Model &model, std::vector<std::string> &notes,
                                        const std::vector<c10::IValue> &inputs,
                                        const TimingRequest &request);

/// A table with one row per top-level operator, without numbers.
CostTable emptyTable(const Model &model);

} // namespace pipec
