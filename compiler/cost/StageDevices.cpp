#include "compiler/cost/StageDevices.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace pipec {

ClusterDevice leastDevice(const Cluster &cluster, std::vector<std::string> &notes) {
  ClusterDevice least = cluster.devices[0];
  bool same = true;
  for (const ClusterDevice &device : cluster.devices) {
    same &= device.flopsPerSecond == least.flopsPerSecond &&
            device.bytesPerSecond == least.bytesPerSecond &&
            device.memoryBytes == least.memoryBytes;
    least.flopsPerSecond = std::min(least.flopsPerSecond, device.flopsPerSecond);
    least.bytesPerSecond = std::min(least.bytesPerSecond, device.bytesPerSecond);
    if (device.memoryBytes && (!least.memoryBytes || device.memoryBytes < least.memoryBytes))
      least.memoryBytes = device.memoryBytes;
  }
  if (!same)
    notes.push_back("the cluster's devices differ: if there is one device per stage, each "
                    "stage is planned for its device; otherwise all stages are planned for "
                    "the slowest rates and the smallest memory");
  return least;
}

void addDevices(CutRequest &request, const Cluster &cluster, int64_t memoryLimit) {
  bool linksDiffer = false;
  for (const ClusterDevice &device : cluster.devices) {
    const double slow = slowness(cluster, device);
    request.fastest = std::min(request.fastest, slow);
    request.devices.push_back({slow, memoryLimit ? memoryLimit : device.memoryBytes});
    for (const ClusterDevice &other : cluster.devices) {
      const ClusterLink link = cluster.linkBetween(device.name, other.name);
      linksDiffer |= &device != &other && (link.bytesPerSecond != request.link.bytesPerSecond ||
                                           link.latencyNs != request.link.latencyNs);
    }
  }
  const bool devicesDiffer = llvm::any_of(
      request.devices, [&](const CutDevice &device) { return !(device == request.devices[0]); });
  request.unlike = linksDiffer || devicesDiffer;
  if (linksDiffer)
    request.devices.clear();
}

} // namespace pipec
