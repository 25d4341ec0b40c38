// Tries one schedule for one work: generates it, compares its memory with the limit of every rank,
// and simulates its program.
#pragma once

#include "compiler/planner/Bounds.h"
#include "compiler/planner/StagedWork.h"
#include "ir/support/Quantities.h"

#include <memory>
#include <optional>

namespace pipec {

/// A schedule for a work, and the results of its trial.
struct ScheduleCandidate {
  std::string schedule; // name of the generator
  std::shared_ptr<const StagedWork> work;
  std::vector<bool> recompute;    // per stage; empty: none
  int64_t atLeast = 0;            // lower bound of a step in ns: every link and window is free
  std::optional<int64_t> step;    // simulated; absent if `atLeast` is no better than the best
  std::vector<int64_t> needBytes; // per rank
  ErrorText why{ExitCode::Success, "", ""}; // why it is not valid

  bool valid() const { return why.code == ExitCode::Success; }
  int64_t mostBytes() const;
};

struct FastestSchedule {
  ScheduleCandidate candidate;
  Schedule schedule;
  SimulatedRun run;
};

/// Tries candidates one after the other and keeps the fastest.
class CandidateTrial {
public:
  /// `memoryText`: the form of memory in messages; null: "5 bytes".
  CandidateTrial(double seconds, std::string (*memoryText)(int64_t bytes))
      : deadline_(seconds, TimeCount::Work), memoryText_(memoryText) {}

  /// Fills the candidate and keeps it if it is the best so far. Returns false if it needs too much
  /// memory. A generator that chooses by memory does not count what messages need: it tries once
  /// more with that much less.
  llvm::Expected<bool> tryCandidate(const Generator &generator, ScheduleCandidate &candidate);
  /// The bytes of its program on the largest rank, if its table was already too large.
  std::optional<int64_t> exactNeed(const ScheduleCandidate &candidate) const;

  /// Null: nothing fits yet.
  const FastestSchedule *best() const { return best_ ? &*best_ : nullptr; }
  FastestSchedule takeBest() { return std::move(*best_); }
  void forgetBest() { best_.reset(); }

  bool outOfTime() const { return deadline_.passed(); }
  /// Starts the time limit again.
  void restartTime() { deadline_ = Deadline(deadline_.limit(), TimeCount::Work); }
  /// False if the time was up before or while a schedule was made.
  bool complete() const { return complete_; }
  void setIncomplete() { complete_ = false; }

  /// The error of the first generator that does not support the shape.
  const std::optional<ErrorText> &misfit() const { return misfit_; }
  std::string text(int64_t bytes) const {
    return memoryText_ ? memoryText_(bytes) : exactBytes(bytes);
  }

private:
  /// `spare`: bytes below the limit that tables do not count.
  ScheduleRequest requestFor(const ScheduleCandidate &candidate, int64_t &leastMemory,
                             int64_t spare) const;
  llvm::Expected<bool> tryOnce(const Generator &generator, ScheduleCandidate &candidate,
                               int64_t spare);
  bool judgeMemory(ScheduleCandidate &candidate) const;
  llvm::Expected<bool> simulateCandidate(Schedule schedule, ScheduleCandidate &candidate);

  Deadline deadline_;
  std::string (*memoryText_)(int64_t bytes);
  std::optional<FastestSchedule> best_;
  int64_t excess_ = 0; // bytes by which the last program exceeded the limit
  bool complete_ = true;
  std::optional<ErrorText> misfit_;
};

} // namespace pipec
