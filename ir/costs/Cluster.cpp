#include "ir/costs/Cluster.h"

#include "ir/support/Json.h"
#include "ir/support/JsonReader.h"
#include "ir/support/TextFile.h"
#include "ir/support/Try.h"
#include "ir/support/Words.h"

#include <set>

namespace pipec {
namespace {

constexpr llvm::StringLiteral kEvery = "*";
constexpr size_t kMostBytes = size_t(16) << 20; // of a cluster file

void readDevice(JsonObject &object, Cluster &cluster, std::set<std::string> &names) {
  ClusterDevice &device = cluster.devices.emplace_back();
  device.name = object.string("name");
  if (device.name == kEvery || device.name.empty())
    object.fail("name", "expected a name, got \"" + device.name + "\"");
  if (!names.insert(device.name).second)
    object.fail("name", "expected a name of its own, got \"" + device.name + "\" again");
  const std::string kind = object.string("kind");
  if (kind != "cpu" && kind != "cuda" && !kind.empty())
    object.fail("kind", "expected cpu or cuda, got \"" + kind + "\"");
  device.kind = kind == "cuda" ? ClusterDevice::Kind::Cuda : ClusterDevice::Kind::Cpu;
  if (object.has("cores")) {
    device.cores = object.indices("cores");
    if (device.kind == ClusterDevice::Kind::Cuda)
      object.fail("cores", "expected none of a cuda device");
    if (std::set<size_t>(device.cores.begin(), device.cores.end()).size() != device.cores.size())
      object.fail("cores", "expected each core once");
    // The default rates are those of a core.
    const auto cores = static_cast<int64_t>(std::max<size_t>(1, device.cores.size()));
    device.flopsPerSecond *= cores;
    device.bytesPerSecond *= cores;
  }
  if (object.has("memory_bytes"))
    device.memoryBytes = object.integer("memory_bytes", 1);
  const bool rated = object.has("flops_per_second");
  if (rated)
    device.flopsPerSecond = object.integer("flops_per_second", 1);
  if (object.has("bytes_per_second"))
    device.bytesPerSecond = object.integer("bytes_per_second", 1);
  else if (device.kind == ClusterDevice::Kind::Cuda)
    object.fail("bytes_per_second", "expected the rate of a cuda device's memory, got none");
  if (device.kind == ClusterDevice::Kind::Cuda && !rated)
    object.fail("flops_per_second", "expected the rate of a cuda device, got none");
}

void readLink(JsonObject &object, Cluster &cluster, const std::set<std::string> &names) {
  ClusterLink &link = cluster.links.emplace_back();
  const std::vector<std::string> ends = object.strings("between");
  if (ends.size() != 2) {
    object.fail("between", fmt::format("expected two devices, got {}", ends.size()));
    return;
  }
  for (const std::string &end : ends)
    if (end != kEvery && !names.count(end))
      object.fail("between",
                  fmt::format("there is no device \"{}\"; {}", end,
                              didYouMean(end, std::vector<std::string>(names.begin(), names.end()),
                                         "* matches every device")));
  link.from = ends[0];
  link.to = ends[1];
  if (object.has("bytes_per_second"))
    link.bytesPerSecond = object.integer("bytes_per_second", 1);
  if (object.has("latency_ns"))
    link.latencyNs = object.integer("latency_ns");
  if (object.has("shared"))
    link.shared = object.boolean("shared");
}

} // namespace

int64_t ClusterLink::nanoseconds(int64_t bytes) const {
  return latencyNs + static_cast<int64_t>(1e9 * static_cast<double>(bytes) /
                                          static_cast<double>(bytesPerSecond));
}

std::optional<size_t> Cluster::indexOfLink(llvm::StringRef a, llvm::StringRef b) const {
  auto stands = [](const std::string &end, llvm::StringRef device) {
    return end == kEvery || end == device;
  };
  for (size_t i = 0; i < links.size(); ++i)
    if ((stands(links[i].from, a) && stands(links[i].to, b)) ||
        (stands(links[i].from, b) && stands(links[i].to, a)))
      return i;
  return std::nullopt;
}

ClusterLink Cluster::linkBetween(llvm::StringRef a, llvm::StringRef b) const {
  const std::optional<size_t> index = indexOfLink(a, b);
  return index ? links[*index] : ClusterLink();
}

double slowness(const Cluster &cluster, const ClusterDevice &device) {
  int64_t flops = device.flopsPerSecond, bytes = device.bytesPerSecond;
  for (const ClusterDevice &other : cluster.devices) {
    flops = std::min(flops, other.flopsPerSecond);
    bytes = std::min(bytes, other.bytesPerSecond);
  }
  return std::max(double(flops) / double(device.flopsPerSecond),
                  double(bytes) / double(device.bytesPerSecond));
}

Cluster defaultCluster(size_t devices) {
  Cluster cluster;
  for (size_t i = 0; i < devices; ++i)
    cluster.devices.emplace_back().name = "cpu:" + std::to_string(i);
  // No byte moves; only a thread is woken.
  cluster.links.push_back({"*", "*", 1'000'000'000'000, 5'000, false});
  return cluster;
}

llvm::Expected<Cluster> clusterFromJson(llvm::StringRef text, const std::string &name) {
  JsonLimits limits;
  limits.what = name;
  limits.code = ExitCode::Usage;
  limits.maxBytes = kMostBytes;
  llvm::json::Value value = TRY(parseJson(text, limits));
  JsonReading reading;
  Cluster cluster;
  JsonObject top(reading, &value, "");
  top.integer("schema_version", 1, 1);
  std::set<std::string> names;
  top.objects("devices", [&](JsonObject &object) { readDevice(object, cluster, names); });
  if (reading.error.empty() && cluster.devices.empty())
    top.fail("devices", "expected at least one, got none");
  if (top.has("links"))
    top.objects("links", [&](JsonObject &object) { readLink(object, cluster, names); });
  top.finish();
  if (!reading.error.empty())
    return makeError(ExitCode::Usage, name + ": " + reading.error,
                     "docs/cluster.md describes cluster files");
  return cluster;
}

llvm::Expected<Cluster> readCluster(const std::string &path) {
  TextFormat format;
  format.what = "JSON";
  format.maxBytes = kMostBytes;
  return clusterFromJson(TRY(readTextFile(path, format)), path);
}

} // namespace pipec
