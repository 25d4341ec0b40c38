// A plan's schedule in time, as far as the plan itself knows what its stages cost.
#pragma once

#include "ir/plan/Plan.h"
#include "ir/schedule/Timing.h"

namespace pipec {

struct PlanTiming {
  bool known = false;           // the plan has costs; else every stage takes the same: kStep
  std::vector<int64_t> stageNs; // per stage: forward of a micro-batch
  Schedule schedule;            // what was simulated
  int64_t microBatches = 0;     // of it: perhaps not all
  Timing timing;                // of `schedule`
  int64_t lowerBound = 0;       // of its makespan
  int64_t atOnce = 0; // ranks at work while the artifact's costs.json was measured; 0: it has none
  std::vector<int64_t> inFlight; // per rank: most bytes of values sent, posted or received at once

  static constexpr int64_t kStep = 1'000'000;
};

/// What a stage's forward takes, as its compile estimated it; 0: no estimate.
int64_t forwardNs(const StagePlan &stage);

/// "measured costs, as if 2 ranks were at work all the time (...)": what the times rest on.
std::string whatTimesRestOn(const PlanTiming &timing);

/// The artifact's schedule, its first `mostMicroBatches` at most, simulated as a program. Values
/// take the time that threads of one process need to hand them over. Errors: BadArtifact for a
/// schedule that does not fit the plan.
llvm::Expected<PlanTiming> timePlan(const Plan &plan, const Schedule &schedule,
                                    int64_t mostMicroBatches);

} // namespace pipec
