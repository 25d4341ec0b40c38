// The times of a plan's schedule, as far as the plan knows the costs of its stages.
#pragma once

#include "ir/plan/Plan.h"
#include "ir/schedule/Timing.h"

namespace pipec {

struct PlanTiming {
  bool known = false;            // the plan has costs; else every stage takes kStep
  std::vector<int64_t> stageNs;  // per stage: its work on a micro-batch, backward included
  std::vector<StageCosts> costs; // what that work is made of
  Schedule schedule;             // the simulated schedule
  int64_t microBatches = 0;      // in it; possibly not all
  Timing timing;                 // of `schedule`
  int64_t lowerBound = 0;        // of its makespan
  int64_t atOnce = 0; // ranks that ran while the artifact's costs.json was measured; 0: it has none
  std::vector<int64_t> inFlight; // per rank: peak bytes of values sent, posted or received

  static constexpr int64_t kStep = 1'000'000;
};

/// The time of a stage's forward, as its compile estimated it; 0: no estimate.
int64_t forwardNs(const StagePlan &stage);

/// The basis of the times: "measured times, assuming that 2 ranks always run at once (...)", and of
/// a training, whether its optimizer is counted.
std::string sourceOfTimes(const Plan &plan, const PlanTiming &timing);

/// Simulates the artifact's schedule, at most its first `mostMicroBatches`, as a program. A
/// transfer takes the time that threads of one process need to hand a value over: without
/// --cluster, that is the planner's step of a training. Errors:
/// BadArtifact for a schedule that does not fit the plan.
llvm::Expected<PlanTiming> timePlan(const Plan &plan, const Schedule &schedule,
                                    int64_t mostMicroBatches);

} // namespace pipec
