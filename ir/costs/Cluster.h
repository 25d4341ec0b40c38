// The machine that a pipeline runs on: devices and links, as --cluster reads them. docs/cluster.md
// is the manual.
#pragma once

#include "ir/support/Error.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pipec {

/// A core with wide vectors on large matrix products. Half of its bytes come from caches and half
/// from memory, so moving a byte takes as long as four operations.
constexpr int64_t kCoreFlopsPerSecond = 100'000'000'000;
constexpr int64_t kCoreFlopsPerByte = 4;

struct ClusterDevice {
  enum class Kind { Cpu, Cuda };
  std::string name; // unique: "cpu:0"
  Kind kind = Kind::Cpu;
  std::vector<size_t> cores; // of a CPU: the cores that it stands for; empty: not given
  int64_t memoryBytes = 0;   // 0: no limit
  int64_t flopsPerSecond = kCoreFlopsPerSecond;
  int64_t bytesPerSecond = kCoreFlopsPerSecond / kCoreFlopsPerByte; // of its own memory
  bool operator==(const ClusterDevice &) const = default;
};

/// The path of values between two devices, in both directions. "*" stands for every device.
struct ClusterLink {
  std::string from = "*", to = "*";
  int64_t bytesPerSecond = 10'000'000'000;
  int64_t latencyNs = 10'000;
  bool shared = false; // true: the pairs that it stands for share its bandwidth
  bool operator==(const ClusterLink &) const = default;

  int64_t nanoseconds(int64_t bytes) const;
};

struct Cluster {
  std::vector<ClusterDevice> devices;
  std::vector<ClusterLink> links;
  bool operator==(const Cluster &) const = default;

  /// Ranks share devices in turn if there are more ranks than devices.
  const ClusterDevice &deviceOfRank(size_t rank) const { return devices[rank % devices.size()]; }

  /// The first link between the two devices, in the order of the file; nothing if none is named.
  std::optional<size_t> indexOfLink(llvm::StringRef a, llvm::StringRef b) const;
  /// The same link, or a default link if none is named.
  ClusterLink linkBetween(llvm::StringRef a, llvm::StringRef b) const;
};

/// Time factor against the cluster's slowest device, which has the least flops and the least bytes
/// per second of all devices. At most 1.
double slowness(const Cluster &cluster, const ClusterDevice &device);

/// The default without a file: a CPU core per stage; values are handed over by reference.
Cluster defaultCluster(size_t devices);

/// `name` names the file in messages. Errors: Usage with the place in the document.
llvm::Expected<Cluster> clusterFromJson(llvm::StringRef text, const std::string &name);
/// Errors: also IO.
llvm::Expected<Cluster> readCluster(const std::string &path);

} // namespace pipec
