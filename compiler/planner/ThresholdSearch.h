// The best chain of ideals: the exact search for contiguous partitions.
#pragma once

#include "compiler/planner/Ideals.h"

namespace pipec {

/// A stage of a chain: the items of its ideal that are not in the one before.
struct ChainStage {
  uint32_t ideal, kind;
};

struct ChainResult {
  std::vector<ChainStage> stages; // empty: none with a smaller value
  double value = kUnlimited;
  bool complete = false; // every chain of the ideals was considered
  uint64_t pairs = 0;    // stages priced
};

/// The value of loads under an objective.
double objectiveValue(const PartitionObjective &objective, double largest, double sum);

/// A load that no device can have in an assignment with a value below `upper`, when the loads
/// together are at least `leastSum`.
double loadThreshold(const PartitionObjective &objective, double upper, double leastSum);

/// The chain of `ideals` with the least value, if that is less than `upper`. Never a chain that
/// memory or a fixed cut forbids.
ChainResult bestChain(const Ideals &ideals, const std::vector<DeviceKind> &kinds,
                      const PartitionObjective &objective, double upper, const Deadline &deadline);

} // namespace pipec
