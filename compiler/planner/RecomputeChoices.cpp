#include "compiler/planner/RecomputeChoices.h"

#include "ir/support/Try.h"
#include "llvm/ADT/STLExtras.h"

#include <bit>
#include <numeric>

namespace pipec {

namespace {

constexpr size_t kMostStagesOfChoice = 4; // of which every choice of recompute is tried

} // namespace

llvm::Error checkListed(const RecomputeWish &recompute, size_t stages) {
  for (const size_t stage : recompute.stages)
    if (stage >= stages)
      return failf(ExitCode::Usage,
                   "--recompute: expected stages below {}, the number of stages, got {}", stages,
                   stage);
  return llvm::Error::success();
}

bool triesEveryChoice(const Generator &generator, const StagedWork &work) {
  return work.plan.stages.size() <= kMostStagesOfChoice && !generator.looksAtCosts;
}

llvm::Error tryChoices(CandidateTrial &trial, const Generator &generator,
                       ScheduleCandidate &candidate) {
  const size_t stages = candidate.work->plan.stages.size();
  std::vector<uint32_t> sets(size_t(1) << stages), fitting;
  std::iota(sets.begin(), sets.end(), 0);
  llvm::stable_sort(sets,
                    [](uint32_t a, uint32_t b) { return std::popcount(a) < std::popcount(b); });
  auto order = [](const ScheduleCandidate &c) {
    return std::make_tuple(!c.valid(), c.valid() ? !c.step : false,
                           c.valid() ? c.step.value_or(c.atLeast) : c.mostBytes());
  };
  for (uint32_t set : sets) {
    if (set == 0 || llvm::any_of(fitting, [&](uint32_t part) { return (set & part) == part; }))
      continue;
    ScheduleCandidate other;
    other.schedule = candidate.schedule;
    other.work = candidate.work;
    other.atLeast = lowerBoundOf(*candidate.work);
    for (size_t s = 0; s < stages; ++s)
      other.recompute.push_back(set >> s & 1);
    bool fits = TRY(trial.tryCandidate(generator, other));
    if (fits && other.valid())
      fitting.push_back(set);
    if (order(other) < order(candidate))
      candidate = std::move(other);
  }
  return llvm::Error::success();
}

bool recomputeMore(ScheduleCandidate &candidate) {
  const StagedWork &work = *candidate.work;
  const ProgramCosts &costs = work.costs;
  if (candidate.needBytes.empty())
    return false;
  const size_t stages = work.plan.stages.size();
  candidate.recompute.resize(stages, false);
  auto value = [&](size_t s) {
    const int64_t kept = costs.keptToRecompute.empty() ? 0 : costs.keptToRecompute[s];
    const int64_t time = costs.recompute.empty() ? costs.stages[s].forward : costs.recompute[s];
    return double(costs.stages[s].heldByForward - kept) / double(std::max<int64_t>(1, time));
  };
  bool more = false;
  for (size_t r = 0; r < work.plan.ranks; ++r) {
    if (work.within(r, candidate.needBytes[r]))
      continue;
    std::optional<size_t> most;
    for (size_t s = 0; s < stages; ++s)
      if (work.plan.stages[s].rank == r && !candidate.recompute[s] && value(s) > 0 &&
          (!most || value(s) > value(*most)))
        most = s;
    if (!most)
      return false;
    candidate.recompute[*most] = true;
    more = true;
  }
  return more; // no rank is over where only the generator's own count said so
}

std::vector<ScheduleCandidate> choicesOf(const ScheduleCandidate &candidate) {
  const size_t stages = candidate.work->plan.stages.size();
  std::vector<ScheduleCandidate> choices = {candidate};
  if (!candidate.work->shape.train ||
      !triesEveryChoice(*findGenerator(candidate.schedule), *candidate.work))
    return choices;
  for (uint32_t set = 0; set < uint32_t(1) << stages; ++set) {
    choices.push_back(candidate);
    choices.back().recompute.assign(stages, false);
    for (size_t s = 0; s < stages; ++s)
      choices.back().recompute[s] = set >> s & 1;
  }
  return choices;
}

} // namespace pipec
