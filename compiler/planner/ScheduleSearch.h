// The best schedule for stages that are cut: every schedule there is, with and without recompute,
// within the memory of every rank, judged by the simulator of programs.
#pragma once

#include "compiler/planner/LeastMemory.h"

namespace pipec {

/// Which stages run their forward again in the backward. Auto: those that memory demands; of up to
/// four stages every choice is tried (not by schedules that look at costs), of more the one that
/// gives most bytes for its time comes first.
enum class RecomputeChoice { Never, Always, Auto };

/// Which schedules are made for a work.
enum class ScheduleEffort { All, Patterns, Searched }; // Searched: those that look at costs

struct SearchOptions {
  std::string schedule; // only this one; empty: every one
  RecomputeChoice recompute = RecomputeChoice::Auto;
  double seconds = 30; // then no further schedule is tried, and one that is being made is cut short
  /// How messages write memory; null: "5 bytes".
  std::string (*memoryText)(int64_t bytes) = nullptr;
  /// What would do where nothing fits.
  std::string helpWithMemory = "more ranks need less memory per rank";
};

struct SearchOutcome {
  std::vector<ScheduleCandidate>
      candidates;    // the best first, then by step, then those that cannot be
  Schedule schedule; // of the best
  SimulatedRun run;
  int64_t lowerBound = 0; // no schedule of any of the works ends earlier
  bool complete = true;   // false: time was up
  const ScheduleCandidate &best() const { return candidates.front(); }
  double gap() const {
    return run.makespan > 0 ? 1 - double(lowerBound) / double(run.makespan) : 0;
  }
};

/// Works are added one after the other; a good one first saves time: one that cannot be better than
/// the best so far is left out. Deterministic but for where
/// the time limit strikes. One thread.
class ScheduleSearch {
public:
  explicit ScheduleSearch(SearchOptions options);
  ~ScheduleSearch();

  /// Errors: Usage for a work that does not hold together.
  llvm::Error add(StagedWork work, ScheduleEffort effort = ScheduleEffort::All);
  /// So far. Null: nothing fits yet.
  const ScheduleCandidate *best() const;
  const std::vector<ScheduleCandidate> &candidates() const;
  bool complete() const; // no time limit struck
  /// Errors: Usage when no schedule is made for such shapes, with what the first one says; NoPlan
  /// when none fits, with the least memory that would do.
  llvm::Expected<SearchOutcome> take();
  /// After NoPlan.
  const std::optional<LeastMemory> &least() const;

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace pipec
