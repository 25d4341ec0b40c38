// One schedule for one work, tried: it is made, what it needs is held against the memory of every
// rank, and its program is simulated.
#pragma once

#include "compiler/planner/Bounds.h"
#include "compiler/planner/StagedWork.h"
#include "ir/support/Quantities.h"

#include <memory>
#include <optional>

namespace pipec {

/// A schedule for a work, and what is known of it.
struct ScheduleCandidate {
  std::string schedule; // of the generator
  std::shared_ptr<const StagedWork> work;
  std::vector<bool> recompute;    // per stage; empty: none
  int64_t atLeast = 0;            // nanoseconds of a step: messages find every link and window free
  std::optional<int64_t> step;    // simulated; not where `atLeast` is no better than the best
  std::vector<int64_t> needBytes; // per rank
  ErrorText why{ExitCode::Success, "", ""}; // why it cannot be

  bool valid() const { return why.code == ExitCode::Success; }
  int64_t mostBytes() const;
};

struct FastestSchedule {
  ScheduleCandidate candidate;
  Schedule schedule;
  SimulatedRun run;
};

/// Candidates that are tried one after the other; knows the fastest.
class CandidateTrial {
public:
  /// `memoryText`: how messages write memory; null: "5 bytes".
  CandidateTrial(double seconds, std::string (*memoryText)(int64_t bytes))
      : deadline_(seconds), memoryText_(memoryText) {}

  /// Fills the candidate; takes it when it is the best so far. False: it needs too much memory.
  /// Messages need some, which generators that choose by memory are not told of at first.
  llvm::Expected<bool> tryCandidate(const Generator &generator, ScheduleCandidate &candidate);
  /// The bytes on its largest rank, of its program, where the table was too large already.
  std::optional<int64_t> exactNeed(const ScheduleCandidate &candidate) const;

  /// Null: nothing fits yet.
  const FastestSchedule *best() const { return best_ ? &*best_ : nullptr; }
  FastestSchedule takeBest() { return std::move(*best_); }
  void forgetBest() { best_.reset(); }

  bool outOfTime() const { return deadline_.passed(); }
  /// As much time again.
  void restartTime() { deadline_ = Deadline(deadline_.limit()); }
  /// False: time was up while a schedule was made, or before.
  bool complete() const { return complete_; }
  void setIncomplete() { complete_ = false; }

  /// What the first generator that is not for such a shape says.
  const std::optional<ErrorText> &misfit() const { return misfit_; }
  std::string text(int64_t bytes) const {
    return memoryText_ ? memoryText_(bytes) : exactBytes(bytes);
  }

private:
  /// `spare`: bytes of the limit that tables do not count.
  ScheduleRequest requestFor(const ScheduleCandidate &candidate, int64_t &leastMemory,
                             int64_t spare) const;
  llvm::Expected<bool> tryOnce(const Generator &generator, ScheduleCandidate &candidate,
                               int64_t spare);
  bool judgeMemory(ScheduleCandidate &candidate) const;
  llvm::Expected<bool> simulateCandidate(Schedule schedule, ScheduleCandidate &candidate);

  Deadline deadline_;
  std::string (*memoryText_)(int64_t bytes);
  std::optional<FastestSchedule> best_;
  int64_t excess_ = 0; // bytes by which the last program was too large
  bool complete_ = true;
  std::optional<ErrorText> misfit_;
};

} // namespace pipec
