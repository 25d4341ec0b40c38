// The partition problem: which device computes which node of a graph, so that the busiest device
// has the least to do. Knows nothing of models: nodes are times, bytes and edges.
#pragma once

#include "ir/support/Error.h"

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace pipec {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

/// Devices that are the same to the planner.
struct DeviceKind {
  std::string name;
  size_t count = 1;
  double memory = kUnlimited; // bytes of one device
  double transferScale = 1.0; // its share of a transfer's cost; 0: transfers cost it nothing
};

/// A graph and the devices for it. All node data in node order; times in any one unit.
struct PartitionProblem {
  std::vector<DeviceKind> kinds;
  std::vector<std::vector<double>> time; // [kind][node]; kUnlimited: not allowed there
  std::vector<double> memory;            // bytes of a node on its device
  /// What moving a node's output costs, whatever the number of consumers: once to the device that
  /// makes it when any consumer is elsewhere, once to every other device that has a consumer.
  std::vector<double> outCost;
  std::vector<bool> backward; // empty: none
  std::vector<int64_t> color; // nodes of one colour share a device; -1: free; empty: all free
  /// Fixed cuts: no stage holds nodes of two segments, and stages of a segment come after those of
  /// the lower ones. Empty: no fixed cut.
  std::vector<uint32_t> segment;
  std::vector<std::pair<uint32_t, uint32_t>> edges; // source, target
  std::vector<std::pair<uint32_t, uint32_t>> order; // likewise, but nothing is moved

  size_t nodes() const { return memory.size(); }
};

/// How compute and transfers of one device make its load.
enum class LoadRule { Sum, Overlap }; // compute + transfers; max(compute, transfers)

/// What is minimised: the largest load, or with micro-batches m > 0 the latency of m of them
/// through the stages one after the other, sum of loads + (m - 1) * largest load.
struct PartitionObjective {
  LoadRule load = LoadRule::Sum;
  size_t microBatches = 0;
};

struct PartitionOptions {
  PartitionObjective objective;
  double seconds = 60;            // stop then and say how far the result can be from the best
  bool counted = false;           // stop by work done, which takes about as long: the result is the
                                  // same on every run, however busy the machine is
  size_t bytes = size_t(1) << 30; // for the search's tables
  /// In order only: for each node the first one with which a stage may begin that ends with it;
  /// empty: any. Never descending.
  std::vector<uint32_t> firstBegins;
  size_t orders = 10; // lists of the items that are cut for a first partition
};

struct PartitionResult {
  /// Of each node; devices are numbered kind by kind in the order of the problem.
  std::vector<uint32_t> device;
  /// The devices in use, in pipeline order (contiguous partitions only).
  std::vector<uint32_t> stages;
  double value = 0;      // of the objective
  double bottleneck = 0; // the largest load
  double lowerBound = 0; // no allowed assignment has a smaller value
  bool proved = false;   // the value is the least there is
  double seconds = 0;
  size_t items = 0;   // of the last search: what remained after contraction
  size_t ideals = 0;  // and the possible sets of first stages; 0: too many
  uint64_t pairs = 0; // and the stages that were looked at
  double gap() const { return value > 0 ? (value - lowerBound) / value : 0; }
};

/// The best contiguous partition: the devices can be put in an order such that the nodes of the
/// first ones, for any number of first ones, have all their predecessors there (forward nodes; a
/// backward node follows its colour, a class of backward nodes only is ordered by the mirror image
/// of its edges). Deterministic but for where the time limit strikes. Errors: Usage for a malformed
/// problem; NoPlan when no partition fits, with the least memory of a limited device that would do.
/// Any thread; one core.
llvm::Expected<PartitionResult> partitionContiguous(const PartitionProblem &problem,
                                                    const PartitionOptions &options = {});

/// The best partition among those that cut the nodes in the order of their numbers (after a colour
/// class was moved to its first node; edges may not contradict), over the devices of the first
/// kind. For graphs of any size: n log n time, linear memory, value within 1e-9 of the order's
/// best. Errors: as above.
llvm::Expected<PartitionResult> partitionInOrder(const PartitionProblem &problem,
                                                 const PartitionOptions &options = {});

/// The load of every device under an assignment.
std::vector<double> deviceLoads(const PartitionProblem &problem,
                                const std::vector<uint32_t> &device, LoadRule rule);

} // namespace pipec
