// The costs of a program's ops, messages and collectives, and the lower bound for every schedule.
#pragma once

#include "ir/schedule/Program.h"
#include "ir/schedule/Timing.h"

#include <map>

namespace pipec {

/// A link between ranks. Messages pass one after the other, each for its bytes over
/// `bytesPerSecond` (0: no time), and arrive `latency` nanoseconds later.
struct LinkCosts {
  int64_t latency = 0, bytesPerSecond = 0;

  int64_t transferNs(int64_t bytes) const;
};

/// The most bytes that the ops of a stage need at once beyond what their rank holds before them,
/// with what they leave.
struct OpRoom {
  int64_t forward = 0, recompute = 0, backward = 0, inputGrad = 0, weightGrad = 0;
};

/// Times in nanoseconds. A list may be empty; its comment gives the default.
struct ProgramCosts {
  std::vector<StageCosts> stages;
  std::vector<int64_t> wholeBackward;   // per stage, time of B; empty: that of I and W together
  std::vector<int64_t> recompute;       // per stage, time of R; empty: the forward's time
  std::vector<int64_t> keptToRecompute; // per stage, bytes that F keeps until R; empty: none
  std::vector<int64_t> optimize;        // per stage, time of OPT; empty: none
  int64_t norm = 0;                     // time of NORM beside that of its tree
  std::vector<int64_t> channelBytes;    // per channel; empty: as the plan says
  /// Per channel, bytes of a value from its SEND to its TAKE: none if its stage keeps it for its
  /// backward anyway. Empty: as channelBytes.
  std::vector<int64_t> sentBytes;
  /// Per channel, bytes of a value that a stage which reads it keeps for its backward: between
  /// stages of one rank they may be those that its maker keeps. Empty: none.
  std::vector<int64_t> keptByReader;
  /// Per stage, bytes of the gradients of its weights, which are added in the order of
  /// micro-batches: those of a later one wait. Empty: none.
  std::vector<int64_t> gradientBytes;
  std::vector<OpRoom> room; // per stage; empty: an op needs what it leaves
  /// A received value has memory from its TAKE on, as inside one process, not from its POST on.
  bool takesAllocate = false;
  LinkCosts link; // between two ranks that `linkOf` does not name
  std::vector<LinkCosts> links;
  /// (from, to) -> index into `links`. Pairs with the same link share it: its messages pass one
  /// after the other, see simulate/Links.h.
  std::map<std::pair<size_t, size_t>, size_t> linkOf;
  std::vector<size_t> deviceOfRank; // ranks of one device take turns; empty: a device per rank

  int64_t wholeBackwardNs(size_t stage) const;
  const LinkCosts &between(size_t from, size_t to) const;
  int64_t bytesOf(const Plan &plan, size_t channel) const;
  /// The time of the norm: up and down a tree.
  int64_t treeNs(const std::vector<size_t> &ranks) const;
};

/// A certificate: with any schedule, a run of this shape takes at least this long. A device must
/// wait for its first input and then do all its work, one micro-batch must go all the way there and
/// back, and a link must carry all its bytes.
int64_t runLowerBound(const Plan &plan, const RunShape &shape, const ProgramCosts &costs);

} // namespace pipec
