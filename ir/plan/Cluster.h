// What a pipeline runs on: devices and links, as --cluster reads them. docs/cluster.md is the
// manual.
#pragma once

#include "ir/support/Error.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pipec {

/// One core with wide vectors at work on large matrix products; moving a byte, half from caches and
/// half from memory, takes it as long as four operations.
constexpr int64_t kCoreFlopsPerSecond = 100'000'000'000;
constexpr int64_t kCoreFlopsPerByte = 4;

struct ClusterDevice {
  enum class Kind { Cpu, Cuda };
  std::string name; // unique: "cpu:0"
  Kind kind = Kind::Cpu;
  std::vector<size_t> cores; // of a CPU: those it stands for; empty: not said
  int64_t memoryBytes = 0;   // 0: no limit
  int64_t flopsPerSecond = kCoreFlopsPerSecond;
  int64_t bytesPerSecond = kCoreFlopsPerSecond / kCoreFlopsPerByte; // of its own memory
  bool operator==(const ClusterDevice &) const = default;
};

/// How values go between two devices, in both directions. "*" stands for every device.
struct ClusterLink {
  std::string from = "*", to = "*";
  int64_t bytesPerSecond = 10'000'000'000;
  int64_t latencyNs = 10'000;
  bool shared = false; // the pairs that it stands for share its bandwidth
  bool operator==(const ClusterLink &) const = default;

  int64_t nanoseconds(int64_t bytes) const;
};

struct Cluster {
  std::vector<ClusterDevice> devices;
  std::vector<ClusterLink> links;
  bool operator==(const Cluster &) const = default;

  /// The first link between the two, in the order of the file; nothing where none is named.
  std::optional<size_t> indexOfLink(llvm::StringRef a, llvm::StringRef b) const;
  /// The same; a usual one where none is named.
  ClusterLink linkBetween(llvm::StringRef a, llvm::StringRef b) const;
};

/// How much longer than on the cluster's least device, whose flops and bytes a second are the least
/// of all devices': never more than 1.
double slowness(const Cluster &cluster, const ClusterDevice &device);

/// What is assumed without a file: a CPU core per stage, values handed over by reference.
Cluster defaultCluster(size_t devices);

/// parse(print(x)) == x.
std::string toJson(const Cluster &cluster);
/// `name` is how messages call it. Errors: Usage with the place in the document.
llvm::Expected<Cluster> clusterFromJson(llvm::StringRef text, const std::string &name);
/// Errors: also IO.
llvm::Expected<Cluster> readCluster(const std::string &path);

} // namespace pipec
