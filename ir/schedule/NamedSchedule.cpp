#include "ir/schedule/NamedSchedule.h"

#include "ir/schedule/Generators.h"
#include "ir/support/Error.h"
#include "ir/support/Words.h"

namespace pipec {

llvm::Expected<PlacedSchedule> namedSchedule(llvm::StringRef name, size_t stages, size_t ranks,
                                             int64_t microBatches) {
  std::string nearest;
  const Generator *generator = findGenerator(name, &nearest);
  if (!generator)
    return makeError(ExitCode::Usage,
                     fmt::format("--schedule: expected the name of a schedule, got {}", name.str()),
                     nearest.empty() ? "pipe-schedule --list prints all names"
                                     : "did you mean " + nearest + "?");
  if (generator->inference)
    return makeError(
        ExitCode::Usage,
        fmt::format("--schedule: expected a schedule of a training, got {}", name.str()),
        "pipe-schedule --list prints all names");
  if (ranks == 0)
    ranks = std::max<size_t>(1, stages / generator->leastChunks);
  if (stages % ranks != 0 || stages < ranks)
    return failf(ExitCode::Usage,
                 "--schedule {}: expected a number of stages that {} ranks divide, got {}",
                 name.str(), ranks, stages);
  ScheduleRequest request;
  request.ranks = ranks;
  request.chunks = stages / ranks;
  request.microBatches = microBatches;
  // Only the ratios matter, and only to generators that choose by time and memory. What a forward
  // leaves counts as held until W: if I freed it, any number of W could wait. With twice as many
  // micro-batches as ranks the bubble can be zero ("Zero Bubble Pipeline Parallelism", ZB-2p).
  request.costs.stages.assign(stages, {4, 4, 4, 1, 0});
  request.memoryLimit = static_cast<int64_t>(2 * stages);
  request.costs.latency = 1;
  llvm::Expected<Schedule> schedule = makeSchedule(*generator, request);
  if (!schedule) { // the message begins with the name
    const ErrorText text = describe(schedule.takeError());
    return makeError(text.code,
                     fmt::format("--schedule: {} ({} on {})", text.message,
                                 counted(stages, "stage"), counted(ranks, "rank")),
                     text.help);
  }
  return PlacedSchedule{std::move(*schedule),
                        rankOfStages(generator->placement, ranks, request.chunks), ranks};
}

size_t ranksThatFit(llvm::StringRef name, size_t stages, size_t preferred) {
  const Generator *generator = findGenerator(name);
  if (!generator || preferred == 0 || stages % preferred != 0)
    return 0;
  const size_t chunks = stages / preferred;
  const bool fits = chunks >= generator->leastChunks &&
                    (generator->mostChunks == 0 || chunks <= generator->mostChunks);
  return fits ? preferred : 0;
}

void place(const PlacedSchedule &placed, Plan &plan) {
  plan.ranks = placed.ranks;
  for (size_t s = 0; s < plan.stages.size(); ++s)
    plan.stages[s].rank = placed.rankOfStage[s];
}

RunShape trainingShape(const Plan &plan, const Schedule &schedule, int64_t microBatches,
                       bool optimizer) {
  RunShape shape;
  shape.microBatches = microBatches;
  shape.train = true;
  shape.recompute.resize(plan.stages.size());
  if (plan.training)
    for (size_t stage : plan.training->recompute) {
      shape.recompute[stage] = true;
      if (plan.training->recomputeExceptLast)
        shape.kept.insert({stage, microBatches - 1});
    }
  takeRecomputes(schedule, shape);
  shape.norm = true;
  shape.optimizer = optimizer;
  return shape;
}

std::map<size_t, std::set<int64_t>> recomputesOf(const Schedule &schedule) {
  std::map<size_t, std::set<int64_t>> said;
  for (const std::vector<Action> &actions : schedule.ranks)
    for (const Action &action : actions)
      if (action.kind == ActionKind::Recompute)
        said[action.stage].insert(action.microBatch);
  return said;
}

void takeRecomputes(const Schedule &schedule, RunShape &shape) {
  for (const auto &[stage, microBatches] : recomputesOf(schedule)) {
    if (stage >= shape.recompute.size())
      break; // ascending
    shape.recompute[stage] = true;
    for (int64_t k = 0; k < shape.microBatches; ++k)
      if (microBatches.count(k))
        shape.kept.erase({stage, k});
      else
        shape.kept.insert({stage, k});
  }
}

} // namespace pipec
