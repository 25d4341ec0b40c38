// Reads device-placement instances in the format of tests/support/partition/README.md.
#pragma once

#include "compiler/planner/Partition.h"

namespace pipec {

struct PlacementInstance {
  std::string name;
  PartitionProblem problem; // kind 0: accelerators, kind 1: CPUs, which transfers cost nothing
  std::vector<int64_t> nodeId;
  std::vector<bool> isBackward; // of each node
};

/// Errors: Unreadable, with the file's name.
llvm::Expected<PlacementInstance> readInstance(const std::string &path);

} // namespace pipec
