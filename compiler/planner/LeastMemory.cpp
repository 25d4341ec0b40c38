#include "compiler/planner/LeastMemory.h"

#include "compiler/planner/RecomputeChoices.h"
#include "ir/support/Try.h"
#include "llvm/ADT/STLExtras.h"

namespace pipec {

llvm::Expected<std::optional<LeastMemory>>
findLeastMemory(CandidateTrial &trial, std::vector<ScheduleCandidate> candidates, bool choose) {
  std::vector<ScheduleCandidate *> tooLarge;
  for (ScheduleCandidate &candidate : candidates)
    if (candidate.why.code == ExitCode::NoPlan && !candidate.needBytes.empty())
      tooLarge.push_back(&candidate);
  llvm::stable_sort(tooLarge,
                    [](const auto *a, const auto *b) { return a->mostBytes() < b->mostBytes(); });
  const ScheduleCandidate *smallest = nullptr;
  int64_t leastBytes = INT64_MAX;
  for (ScheduleCandidate *candidate : tooLarge) {
    if (candidate->mostBytes() >= leastBytes)
      break;
    for (ScheduleCandidate &choice :
         choose ? choicesOf(*candidate) : std::vector<ScheduleCandidate>{*candidate}) {
      const std::optional<int64_t> need = trial.exactNeed(choice);
      if (!need || *need >= leastBytes)
        continue;
      leastBytes = *need;
      *candidate = std::move(choice);
      smallest = candidate;
    }
  }
  // Generators that adapt to a memory limit may need less under a lower limit.
  for (bool lower = smallest; lower;) {
    lower = false;
    for (const ScheduleCandidate *candidate : tooLarge) {
      if (!findGenerator(candidate->schedule)->looksAtCosts)
        continue;
      auto work = std::make_shared<StagedWork>(*candidate->work);
      work->limitBytes.assign(work->plan.ranks, leastBytes - 1);
      ScheduleCandidate again = *candidate;
      again.work = work;
      trial.forgetBest();
      bool fits = TRY(trial.tryCandidate(*findGenerator(again.schedule), again));
      if (!fits || !again.valid() || again.mostBytes() >= leastBytes)
        continue;
      leastBytes = again.mostBytes();
      smallest = candidate;
      lower = true;
    }
  }
  if (!smallest)
    return std::nullopt;
  return LeastMemory(leastBytes, *smallest);
}

} // namespace pipec
