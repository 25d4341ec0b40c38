#include "compiler/planner/CandidateTrial.h"

#include "ir/schedule/Lower.h"
#include "ir/schedule/OpMemory.h"
#include "ir/support/Try.h"

#include <algorithm>

namespace pipec {

namespace {

constexpr size_t kMostAttempts = 3; // to make a schedule fit with its messages

// How often the actions of a schedule are walked over, about.
constexpr uint64_t kPassesToMake = 2, kPassesToSimulate = 8;

/// F, I and W of each stage and micro-batch.
uint64_t actionsOf(const StagedWork &work) {
  return 3 * work.plan.stages.size() * static_cast<uint64_t>(work.shape.microBatches);
}

} // namespace

int64_t ScheduleCandidate::mostBytes() const {
  return needBytes.empty() ? INT64_MAX : *std::max_element(needBytes.begin(), needBytes.end());
}

ScheduleRequest CandidateTrial::requestFor(const ScheduleCandidate &candidate, int64_t &leastMemory,
                                           int64_t spare) const {
  const StagedWork &work = *candidate.work;
  ScheduleRequest request;
  request.ranks = work.plan.ranks;
  request.chunks = work.chunks;
  request.microBatches = work.shape.microBatches;
  request.costs = tableCosts(work, candidate.recompute);
  request.memoryText = memoryText_;
  request.leastMemory = &leastMemory;
  request.refineActions = work.refineActions;
  request.timeIsUp = [this, actions = actionsOf(work)] {
    WorkClock::spend(actions); // called once per schedule that the generator simulates
    return deadline_.passed();
  };
  for (size_t r = 0; r < work.limitBytes.size(); ++r)
    request.memoryLimit = std::min(
        request.memoryLimit, std::max<int64_t>(0, work.limitBytes[r] - work.fixed(r) - spare));
  return request;
}

llvm::Expected<bool> CandidateTrial::tryCandidate(const Generator &generator,
                                                  ScheduleCandidate &candidate) {
  int64_t spare = 0;
  for (size_t attempt = 0;; ++attempt) {
    excess_ = 0;
    llvm::Expected<bool> fits = tryOnce(generator, candidate, spare);
    const bool quick = candidate.work->refineActions < ScheduleRequest().refineActions;
    if (!fits || *fits || !generator.looksAtCosts || excess_ == 0 ||
        attempt == (quick ? 1 : kMostAttempts))
      return fits;
    spare += excess_;
  }
}

llvm::Expected<bool> CandidateTrial::tryOnce(const Generator &generator,
                                             ScheduleCandidate &candidate, int64_t spare) {
  const StagedWork &work = *candidate.work;
  int64_t leastMemory = -1;
  const ScheduleRequest request = requestFor(candidate, leastMemory, spare);
  WorkClock::spend(kPassesToMake * actionsOf(work));
  llvm::Expected<Schedule> schedule = makeSchedule(generator, request);
  if (generator.looksAtCosts && deadline_.passed())
    complete_ = false;
  if (!schedule) {
    candidate.why = describe(schedule.takeError());
    if (leastMemory >= 0)
      candidate.needBytes.clear();
    if (leastMemory >= 0)
      for (size_t r = 0; r < work.plan.ranks; ++r)
        candidate.needBytes.push_back(leastMemory + work.fixed(r));
    if (candidate.why.code == ExitCode::Usage && !misfit_)
      misfit_ = candidate.why;
    return candidate.why.code != ExitCode::NoPlan;
  }
  candidate.why = {ExitCode::Success, "", ""};
  ScheduleCosts costs = request.costs;
  if (!work.shape.train) // without a backward nothing is kept
    for (StageCosts &stage : costs.stages)
      stage.heldByForward = stage.freedByInputGrad = 0;
  Timing timing = TRY(timeSchedule(*schedule, costs));
  candidate.atLeast = std::max(candidate.atLeast, timing.makespan);
  candidate.needBytes = timing.peakBytes;
  for (size_t r = 0; r < work.plan.ranks; ++r)
    candidate.needBytes[r] += work.fixed(r); // and what messages and R hold: the program says
  if (!judgeMemory(candidate))
    return false;
  return simulateCandidate(std::move(*schedule), candidate);
}

bool CandidateTrial::judgeMemory(ScheduleCandidate &candidate) const {
  const StagedWork &work = *candidate.work;
  for (size_t r = 0; r < work.plan.ranks; ++r)
    if (!work.within(r, candidate.needBytes[r])) {
      candidate.why = {ExitCode::NoPlan,
                       fmt::format("rank {} needs {}, the limit is {}", r,
                                   text(candidate.needBytes[r]), text(work.limitBytes[r])),
                       ""};
      return false;
    }
  candidate.why = {ExitCode::Success, "", ""};
  return true;
}

llvm::Expected<bool> CandidateTrial::simulateCandidate(Schedule schedule,
                                                       ScheduleCandidate &candidate) {
  const StagedWork &work = *candidate.work;
  RunShape shape = work.shape;
  shape.recompute = candidate.recompute;
  WorkClock::spend(kPassesToSimulate * actionsOf(work));
  Program program = TRY(lower(schedule, work.plan, shape));
  const std::vector<MemoryPeak> peaks = memoryPeaks(program, work.plan, shape, work.costs);
  for (size_t r = 0; r < work.plan.ranks; ++r)
    candidate.needBytes[r] = peaks[r].bytes + work.fixed(r);
  if (!judgeMemory(candidate)) {
    for (size_t r = 0; r < work.plan.ranks; ++r)
      excess_ = std::max(excess_, candidate.needBytes[r] - work.limitBytes[r]);
    return false;
  }
  if (best_ && candidate.atLeast >= *best_->candidate.step)
    return true;
  SimulatedRun run = TRY(simulate(program, work.plan, shape, work.costs, /*keepIntervals=*/false));
  candidate.step = run.makespan;
  if (best_ && *best_->candidate.step <= run.makespan)
    return true;
  best_ = {candidate, std::move(schedule), std::move(run)};
  return true;
}

std::optional<int64_t> CandidateTrial::exactNeed(const ScheduleCandidate &candidate) const {
  const StagedWork &work = *candidate.work;
  int64_t ignored = -1;
  ScheduleRequest request = requestFor(candidate, ignored, 0);
  request.memoryLimit = 0;
  for (size_t r = 0; r < work.plan.ranks; ++r)
    request.memoryLimit = std::max(request.memoryLimit, candidate.needBytes[r] - work.fixed(r));
  llvm::Expected<Schedule> schedule = makeSchedule(*findGenerator(candidate.schedule), request);
  RunShape shape = work.shape;
  shape.recompute = candidate.recompute;
  llvm::Expected<Program> program =
      schedule ? lower(*schedule, work.plan, shape) : schedule.takeError();
  if (!program) { // the schedule does not exist with the least memory: `needBytes` stands
    llvm::consumeError(program.takeError());
    return std::nullopt;
  }
  int64_t most = 0;
  const std::vector<MemoryPeak> peaks = memoryPeaks(*program, work.plan, shape, work.costs);
  for (size_t r = 0; r < work.plan.ranks; ++r)
    most = std::max(most, peaks[r].bytes + work.fixed(r));
  return most;
}

} // namespace pipec
