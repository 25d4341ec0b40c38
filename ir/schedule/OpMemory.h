// What each op of a program takes and gives back, for the simulator and the memory check.
#pragma once

#include "ir/schedule/Simulate.h"
#include "ir/schedule/check/Demands.h"

#include <tuple>

namespace pipec {

/// A forward keeps what its backward needs (with recompute: what R needs, and R the rest), I and W
/// give it back. A received value is counted from its POST until the last stage of the rank has run
/// on it (what its backward needs of it is the forward's), a received gradient until the backward
/// that it is for. Transmitted weights stay. What a SEND holds is its caller's to count.
class OpMemory {
public:
  OpMemory(const Plan &plan, const RunShape &shape, const ProgramCosts &costs);

  int64_t bytesOf(const Op &message) const { return bytes_[message.channel]; }
  /// Taken when `op` begins: F, R, POST.
  int64_t atStart(const Op &op) const;
  /// Given back when `op` has run on `rank`: F, B, I, W.
  int64_t atEnd(size_t rank, const Op &op);

private:
  struct Stage {
    int64_t values = 0;              // bytes that only this stage of its rank reads
    std::vector<size_t> sharedEdges; // read by other stages of the rank too
    int64_t gradients = 0;           // bytes of the gradients that its backward takes
  };

  int64_t keptToRecompute(size_t stage) const {
    return costs_.keptToRecompute.empty() ? 0 : costs_.keptToRecompute[stage];
  }

  const RunShape &shape_;
  const ProgramCosts &costs_;
  const Demands demands_;
  std::vector<int64_t> bytes_;  // per channel
  std::vector<size_t> readers_; // per edge: stages of the receiving rank
  std::vector<Stage> stages_;
  std::map<std::tuple<size_t, size_t, int64_t>, size_t> left_; // rank, edge, micro-batch: readers
};

/// The most that a rank can hold, and the op at which it does.
struct MemoryPeak {
  int64_t bytes = 0;
  size_t op = 0;
};

/// Whatever the timing: of every lane as many sent values are counted as its window lets wait.
std::vector<MemoryPeak> memoryPeaks(const Program &program, const Plan &plan, const RunShape &shape,
                                    const ProgramCosts &costs);

/// Errors: NoPlan naming the first rank over its limit, the op, and both numbers.
llvm::Error checkMemory(const Program &program, const Plan &plan, const RunShape &shape,
                        const ProgramCosts &costs, const std::vector<int64_t> &limitOfRank);

} // namespace pipec
