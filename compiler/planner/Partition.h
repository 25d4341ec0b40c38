// The partition problem: assign the nodes of a graph to devices so that the busiest device has the
// least load. It knows nothing of models: nodes are times, bytes and edges.
#pragma once

#include "ir/support/Error.h"

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace pipec {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

/// Devices that are the same to the planner.
struct DeviceKind {
  size_t count = 1;
  double memory = kUnlimited; // bytes of one device
  /// Whether its load is compute and transfers. False: compute only. Only the published instances
  /// of bench-partition set it, for hosts beside accelerators; without it two of their optima are
  /// other ones.
  bool paysTransfers = true;
};

/// A graph and its devices. Node data is in node order; times have any one unit.
struct PartitionProblem {
  std::vector<DeviceKind> kinds;
  std::vector<std::vector<double>> time; // [kind][node]
  std::vector<double> memory;            // bytes of a node on its device
  /// The cost of moving a node's output, for any number of consumers: once for the maker's device
  /// if any consumer is elsewhere, and once for every other device with a consumer.
  std::vector<double> outCost;
  std::vector<int64_t> color; // nodes of one colour share a device; -1: free; empty: all free
  std::vector<std::pair<uint32_t, uint32_t>> edges; // maker of an output, consumer
  std::vector<std::pair<uint32_t, uint32_t>> order; // the second in no earlier stage than the first

  size_t nodes() const { return memory.size(); }
};

struct PartitionOptions {
  double seconds = 60;            // stop then and say how far the result can be from the best
  bool byClock = false;           // for benchmarks; else seconds are work that takes about as long:
                                  // the result is the same on every run, however busy the machine
  size_t bytes = size_t(1) << 30; // for the search's tables
  /// For partitionInOrder only: per node, the first node at which a stage can begin that ends with
  /// it, never descending; empty: any.
  std::vector<uint32_t> firstBegins;
};

struct PartitionResult {
  /// Per node; devices are numbered kind by kind in the order of the problem.
  std::vector<uint32_t> device;
  /// The devices in use, in pipeline order (contiguous partitions only).
  std::vector<uint32_t> stages;
  double bottleneck = 0; // the largest load
  double lowerBound = 0; // no allowed assignment has a smaller one
  bool proved = false;   // the bottleneck is the least there is
  double seconds = 0;
  size_t items = 0;   // of the last search: what remained after contraction
  size_t ideals = 0;  // and the possible sets of first stages; 0: too many
  uint64_t pairs = 0; // and the stages that were looked at
  double gap() const { return bottleneck > 0 ? (bottleneck - lowerBound) / bottleneck : 0; }
};

/// The best contiguous partition: in some order of the devices, for every k, the nodes on the first
/// k devices include all nodes that `order` puts before them. The result is deterministic unless
/// a limit by the clock ends the search. Errors: Usage for a malformed problem; NoPlan if no
/// partition fits, with the least memory of a limited device that would suffice. Any thread; one
/// core.
llvm::Expected<PartitionResult> partitionContiguous(const PartitionProblem &problem,
                                                    const PartitionOptions &options = {});

/// The best partition among those that cut the nodes in the order of their numbers (after a colour
/// class was moved to its first node; `order` may not contradict), over the devices of the first
/// kind. For graphs of any size: n log n time, linear memory, bottleneck within 1e-9 of the best of
/// this list. Errors: as above. Not cutList of ir/support: what a stage sends and receives depends
/// on both its ends, so that a shorter stage may cost more.
llvm::Expected<PartitionResult> partitionInOrder(const PartitionProblem &problem,
                                                 const PartitionOptions &options = {});

/// The load of every device under an assignment.
std::vector<double> deviceLoads(const PartitionProblem &problem,
                                const std::vector<uint32_t> &device);

} // namespace pipec
