// What a compute schedule costs: when every action runs, where ranks stand idle, how much memory
// they hold.
#pragma once

#include "ir/schedule/Schedule.h"

#include <utility>

namespace pipec {

/// Times of one stage on one micro-batch, in nanoseconds, and the bytes that its activations hold:
/// taken when F starts, returned partly when I ends and the rest when W ends (both when B ends).
/// Papers on zero bubbles call inputGrad T_B.
struct StageCosts {
  int64_t forward = 0, inputGrad = 0, weightGrad = 0;
  int64_t heldByForward = 0, freedByInputGrad = 0;

  int64_t fullBackward() const { return inputGrad + weightGrad; }
  int64_t freedByWeightGrad() const { return heldByForward - freedByInputGrad; }
  int64_t work() const { return forward + inputGrad + weightGrad; }
};

struct ScheduleCosts {
  std::vector<StageCosts> stages;
  int64_t latency = 0;                          // of a value from one rank to another
  std::vector<std::pair<size_t, size_t>> skips; // from stage, to stage: beside the chain
};

/// Every stage of `ranks` ranks with `chunks` stages each costs an equal part of a rank's `whole`.
/// Remainders of the division go to the last chunk.
ScheduleCosts equalCosts(const StageCosts &whole, int64_t latency, size_t ranks, size_t chunks);

/// How the two halves of a pair (withNext) share a rank.
enum class PairRule {
  Split,      // one after the other, forward first: one thread
  Fused,      // one block that lasts as long as both
  Concurrent, // one block that lasts as long as the longer one
};

/// A rank runs its actions in order; an action starts when its rank is free and what it reads has
/// arrived (its end, plus the latency where it comes from another rank). Transfers do not occupy
/// ranks. F reads F of the stage before, I and B read F and the backward of the stage after, W
/// reads I; skips add F <- F and backward <- backward. Recompute takes a forward's time and reads
/// nothing.
struct Timing {
  struct Interval {
    int64_t start = 0, end = 0;
  };
  std::vector<std::vector<Interval>>
      ranks;                            // like Schedule::ranks; receives and sends have no length
  int64_t makespan = 0;                 // from time 0 to the last end
  int64_t longestSpan = 0;              // most of (last end - first start) over the ranks
  std::vector<int64_t> busy, peakBytes; // per rank

  int64_t work() const;          // of the busiest rank
  double bubbleMakespan() const; // 1 - work / makespan
  double bubbleLongestSpan() const;
};

/// Errors: BadArtifact for a schedule that is not complete or cannot run (see checkTable), naming
/// the actions that wait for each other; Usage when `costs` has another number of stages.
llvm::Expected<Timing> timeSchedule(const Schedule &schedule, const ScheduleCosts &costs,
                                    PairRule pairs = PairRule::Split);

/// No schedule of these stages on these ranks can end earlier: the first rank must wait for what
/// comes before it, do its work, and what follows its last action must run (schedules.md of the
/// zero-bubble papers, generalised to any placement).
int64_t makespanLowerBound(const ScheduleCosts &costs, const std::vector<size_t> &rankOfStage,
                           size_t ranks, int64_t microBatches, bool forwardOnly);

} // namespace pipec
