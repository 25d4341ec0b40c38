// The devices of a cluster that stages are planned for.
#pragma once

#include "compiler/cost/PlanCuts.h"
#include "ir/costs/Cluster.h"

#include <string>
#include <vector>

namespace pipec {

/// The device that every stage can be planned for: different devices are used like the slowest of
/// them. Adds a note if the devices of the cluster differ.
ClusterDevice leastDevice(const Cluster &cluster, std::vector<std::string> &notes);

/// Sets what depends on devices in `request`: its devices are the cluster's, as long as the links
/// between them are alike. `memoryLimit`: bytes of a stage; 0: the memory of its device.
void addDevices(CutRequest &request, const Cluster &cluster, int64_t memoryLimit);

} // namespace pipec
