// The costs of a compute schedule: when every action runs, where ranks are idle, how much memory
// they hold.
#pragma once

#include "ir/schedule/ForwardOnly.h"
#include "ir/schedule/Schedule.h"

#include <utility>

namespace pipec {

/// Times of one stage for one micro-batch, in nanoseconds, and the bytes of its activations. F
/// takes them; I returns a part and W the rest (B returns all). I returns less than nothing where
/// the gradients that it leaves for W are more than what it frees. Papers on zero bubbles call
/// inputGrad T_B.
struct StageCosts {
  int64_t forward = 0, inputGrad = 0, weightGrad = 0;
  int64_t heldByForward = 0, freedByInputGrad = 0;

  int64_t fullBackward() const { return inputGrad + weightGrad; }
  int64_t freedByWeightGrad() const { return heldByForward - freedByInputGrad; }
  int64_t work() const { return forward + inputGrad + weightGrad; }
  /// The same where I runs the whole backward and W does nothing.
  StageCosts unsplit() const { return {forward, fullBackward(), 0, heldByForward, heldByForward}; }
  /// The same where I does nothing and W runs the whole backward, for which `received` bytes of
  /// gradients wait.
  StageCosts allInW(int64_t received) const {
    return {forward, 0, fullBackward(), heldByForward, -received};
  }
};

struct ScheduleCosts {
  std::vector<StageCosts> stages;
  int64_t latency = 0;                          // of a value from one rank to another
  std::vector<std::pair<size_t, size_t>> skips; // from stage, to stage: channels beside the chain
};

/// Costs for `ranks` ranks with `chunks` equal stages each; the stages of a rank add up to `whole`.
/// The last chunk gets the remainder of the division.
ScheduleCosts equalCosts(const StageCosts &whole, int64_t latency, size_t ranks, size_t chunks);

/// How the two halves of a pair (withNext) share a rank.
enum class PairRule {
  Split,      // one after the other, forward first: one thread
  Fused,      // one block that lasts as long as both
  Concurrent, // one block that lasts as long as the longer one
};

/// A rank runs its actions in order. An action starts when its rank is free and its inputs have
/// arrived: an input arrives when the action that makes it ends, plus the latency if it comes from
/// another rank. Transfers do not occupy ranks. F reads F of the previous stage, I and B read F and
/// the backward of the next stage, W reads I. A skip adds F <- F and backward <- backward.
/// Recompute takes a forward's time and reads nothing.
struct Timing {
  struct Interval {
    int64_t start = 0, end = 0;
  };
  std::vector<std::vector<Interval>>
      ranks;                            // like Schedule::ranks; receives and sends have no length
  int64_t makespan = 0;                 // from time 0 to the last end
  int64_t longestSpan = 0;              // largest (last end - first start) of a rank
  std::vector<int64_t> busy, peakBytes; // per rank

  int64_t work() const;          // of the busiest rank
  double bubbleMakespan() const; // 1 - work / makespan
  double bubbleLongestSpan() const;
};

/// Errors: BadArtifact for a schedule that is incomplete or cannot run (see checkTable), naming the
/// actions that wait for each other; Usage if `costs` has another number of stages.
llvm::Expected<Timing> timeSchedule(const Schedule &schedule, const ScheduleCosts &costs,
                                    PairRule pairs = PairRule::Split);

/// A lower bound for every schedule of these stages on these ranks: a rank must wait for its first
/// input, do its work, and the stages that follow its last action must run. It generalises the
/// bound of the zero-bubble papers to any placement.
int64_t makespanLowerBound(const ScheduleCosts &costs, const std::vector<size_t> &rankOfStage,
                           size_t ranks, int64_t microBatches, bool forwardOnly);

} // namespace pipec
