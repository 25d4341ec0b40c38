#include "compiler/TrainingSchedule.h"

#include "compiler/GivenSchedule.h"
#include "compiler/planner/PlanTraining.h"
#include "compiler/planner/RecomputeChoices.h"
#include "ir/plan/PlanNames.h"
#include "ir/schedule/NamedSchedule.h"
#include "ir/support/Try.h"

namespace pipec {

std::vector<size_t> recomputedStages(const CompileOptions &options, const PlannedTraining *planned,
                                     const Plan &plan) {
  std::vector<size_t> recomputed;
  for (size_t s = 0; s < plan.stages.size(); ++s)
    if (planned ? planned->stages[s].recomputed : options.recompute.names(s))
      recomputed.push_back(s);
  return recomputed;
}

namespace {

constexpr const char *kUsual = "1f1b";
constexpr int64_t kMicroBatchesPerRank = 2; // as planTraining

std::vector<ExpectedCosts> expectedCosts(const PlannedTraining &planned) {
  std::vector<ExpectedCosts> costs;
  for (size_t s = 0; s < planned.stages.size(); ++s) {
    const StageCosts &stage = planned.stages[s].costs;
    costs.push_back({stage.forward, stage.inputGrad, stage.weightGrad, stage.heldByForward,
                     stage.freedByInputGrad, planned.costs.optimize[s]});
  }
  return costs;
}

} // namespace

llvm::Expected<Schedule> trainingSchedule(const CompileOptions &options,
                                          const PlannedTraining *planned, Plan &plan) {
  const size_t stages = plan.stages.size();
  TRY(checkListed(options.recompute, stages));
  plan.training->recomputeExceptLast =
      options.recompute.choice == RecomputeChoice::ExceptLast && !plan.training->recompute.empty();
  if (planned) {
    plan.training->costs = expectedCosts(*planned);
    plan.training->samples = planned->samples;
  }
  if (givenTable(options)) // ranks and micro-batches follow from it
    return defaultSchedule(options, plan);
  plan.scheduleName = kUsual;
  if (planned)
    plan.scheduleName = planned->scheduleName;
  else if (options.schedule)
    if (const auto *named = std::get_if<NamedSchedule>(&*options.schedule))
      plan.scheduleName = named->name;
  const size_t ranks = planned ? planned->ranks : options.ranks;
  int64_t microBatches = planned ? planned->microBatches : options.microBatches;
  if (!isCut(plan.signature))
    microBatches = 1; // also if more were planned, because the batch cannot be cut
  if (planned && microBatches == planned->microBatches)
    return planned->schedule;
  if (microBatches == 0)
    microBatches = kMicroBatchesPerRank * static_cast<int64_t>(ranks ? ranks : stages);
  PlacedSchedule placed = TRY(namedSchedule(plan.scheduleName, stages, ranks, microBatches));
  place(placed, plan);
  plan.microBatches = microBatches;
  return std::move(placed.schedule);
}

} // namespace pipec
