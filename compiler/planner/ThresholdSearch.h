// Finds the best chain of ideals: the exact search for contiguous partitions.
#pragma once

#include "compiler/planner/Ideals.h"

namespace pipec {

/// A stage of a chain: the items of its ideal that are not in the previous one.
struct ChainStage {
  uint32_t ideal, kind;
};

struct ChainResult {
  std::vector<ChainStage> stages; // empty: none with a smaller largest load
  bool complete = false;          // every chain of the ideals was considered
  uint64_t pairs = 0;             // stages priced
};

/// The chain of `ideals` with the least largest load, if that is less than `upper`. Never a chain
/// that memory forbids.
ChainResult bestChain(const Ideals &ideals, const std::vector<DeviceKind> &kinds, double upper,
                      const Deadline &deadline);

} // namespace pipec
