// The best schedule for given stages: every known schedule, with and without recompute, within the
// memory of every rank, judged by the simulator of programs.
#pragma once

#include "compiler/planner/LeastMemory.h"
#include "compiler/planner/RecomputeWish.h"

namespace pipec {

/// Which schedules are made for a work.
enum class ScheduleEffort { All, Patterns, Searched }; // Searched: those that look at costs

struct SearchOptions {
  std::string schedule; // only this one; empty: every one
  /// Auto: of up to four stages every choice is tried (not by schedules that look at costs), of
  /// more the one that gives most bytes for its time comes first.
  RecomputeWish recompute;
  double seconds =
      30; // of WorkClock; then no further schedule is tried, and the current one is cut short
  /// The form of memory in messages; null: "5 bytes".
  std::string (*memoryText)(int64_t bytes) = nullptr;
  /// The help text if nothing fits.
  std::string helpWithMemory = "raise the memory limit";
};

struct SearchOutcome {
  std::vector<ScheduleCandidate> candidates; // the best first, then by step, then invalid ones
  Schedule schedule;                         // of the best
  SimulatedRun run;
  int64_t lowerBound = 0; // no schedule of any of the works ends earlier
  bool complete = true;   // false: time was up
  const ScheduleCandidate &best() const { return candidates.front(); }
  double gap() const {
    return run.makespan > 0 ? 1 - double(lowerBound) / double(run.makespan) : 0;
  }
};

/// Works are added one after the other. A good first work saves time, because works that cannot
/// beat the best so far are skipped. Deterministic. One thread.
class ScheduleSearch {
public:
  explicit ScheduleSearch(SearchOptions options);
  ~ScheduleSearch();

  /// Errors: Usage for an inconsistent work.
  llvm::Error add(StagedWork work, ScheduleEffort effort = ScheduleEffort::All);
  /// The best so far. Null: nothing fits yet.
  const ScheduleCandidate *best() const;
  const std::vector<ScheduleCandidate> &candidates() const;
  bool complete() const; // no time limit struck
  /// Errors: Usage if no schedule supports such shapes, with the first one's error; NoPlan if none
  /// fits, with the least memory that would suffice.
  llvm::Expected<SearchOutcome> take();
  /// After NoPlan.
  const std::optional<LeastMemory> &least() const;

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace pipec
