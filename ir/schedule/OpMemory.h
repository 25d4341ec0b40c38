// The memory that each op of a program allocates and frees, for the simulator and the memory check.
#pragma once

#include "ir/schedule/Simulate.h"
#include "ir/schedule/check/Demands.h"

#include <set>
#include <tuple>

namespace pipec {

/// A forward keeps the values that its backward needs, and I and W free them. With recompute, the
/// forward keeps what R needs, and R allocates the rest. A received value counts from its POST
/// (or its TAKE) until the last stage of the rank that reads it has run; the part that the backward
/// needs counts as the forward's. A received gradient counts until its backward has run. So do
/// values and gradients between stages of one rank, from the op on that makes them. Gradients of
/// weights count from their B or W until those of all earlier micro-batches are there. Transmitted
/// weights stay. The caller counts the memory that a SEND holds.
class OpMemory {
public:
  OpMemory(const Plan &plan, const RunShape &shape, const ProgramCosts &costs);

  int64_t bytesOf(const Op &message) const { return bytes_[message.channel]; }
  /// The same while a SEND waits for its TAKE.
  int64_t sentBytes(const Op &message) const;
  /// Bytes allocated when `op` begins: F, R, B, I, and POST or TAKE.
  int64_t atStart(const Op &op) const;
  /// The most that `op` needs beyond what the rank held before it.
  int64_t mostDuring(const Op &op) const;
  /// Bytes freed when `op` has run on `rank`: F, B, I, W.
  int64_t atEnd(size_t rank, const Op &op);

private:
  struct Stage {
    int64_t values = 0;              // bytes that only this stage of its rank reads
    std::vector<size_t> sharedEdges; // other stages of the rank read these too
    int64_t gradients = 0;           // bytes of the gradients that its backward reads
    // Between stages of its rank:
    int64_t madeValues = 0, madeGradients = 0; // bytes that its forward and its backward make
    std::vector<size_t> readChannels;          // channels that its forward reads
    // Of these channels both the maker and the readers keep the value, which is there once:
    std::vector<size_t> sharedRead, sharedMade;
  };
  /// Bytes of a value between stages of one rank, beyond those that its maker keeps.
  int64_t localBytes(size_t channel) const {
    return costs_.sentBytes.empty() ? bytes_[channel] : costs_.sentBytes[channel];
  }
  int64_t sharedBytes(size_t channel) const;
  /// What the op of a backward frees less than its costs say, because others still keep it.
  int64_t stillKept(size_t rank, llvm::ArrayRef<size_t> channels, int64_t microBatch);
  /// Bytes of gradients that wait after B or W, less those that waited for it.
  int64_t waitingAfter(size_t rank, const Op &op);
  /// The last of `readers` stages of a rank has read a value: it is freed.
  bool isLastRead(size_t rank, size_t place, int64_t microBatch, size_t readers);

  /// The micro-batches whose gradients of weights are there.
  struct Folded {
    int64_t next = 0;        // all before it
    std::set<int64_t> early; // beyond it
  };

  int64_t keptToRecompute(size_t stage) const {
    return costs_.keptToRecompute.empty() ? 0 : costs_.keptToRecompute[stage];
  }

  const RunShape &shape_;
  const ProgramCosts &costs_;
  const Demands demands_;
  std::vector<int64_t> bytes_;       // per channel
  std::vector<size_t> readers_;      // per edge: stages of the receiving rank
  std::vector<size_t> localReaders_; // per channel: stages of the rank that makes it
  std::vector<size_t> keepers_;      // per channel: stages of that rank that share its value
  std::vector<Stage> stages_;
  size_t ranks_;               // of a replica
  std::vector<Folded> folded_; // per stage of each replica
  /// Rank, place (an edge, behind all of them a channel, behind these a shared one) and
  /// micro-batch: readers.
  std::map<std::tuple<size_t, size_t, int64_t>, size_t> left_;
};

/// The peak memory of a rank, and the op that reaches it.
struct MemoryPeak {
  int64_t bytes = 0;
  size_t op = 0;
};

/// An upper bound for any timing: every lane counts as many sent values as its window holds.
std::vector<MemoryPeak> memoryPeaks(const Program &program, const Plan &plan, const RunShape &shape,
                                    const ProgramCosts &costs);

} // namespace pipec
