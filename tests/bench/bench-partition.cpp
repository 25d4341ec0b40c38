// bench-partition DIR: every instance of a directory, or of the folder `throughput` in it, one line
// each. bench-partition --fixed-order N: a made graph of N nodes, cut in its order.
#include "ir/support/Llvm.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "tests/support/partition/ReadInstance.h"

#include <fmt/core.h>

#include <algorithm>
#include <ctime>
#include <random>

using namespace pipec;

namespace {

llvm::cl::opt<std::string> directory(llvm::cl::Positional, llvm::cl::desc("DIR"));
llvm::cl::opt<double> seconds("seconds", llvm::cl::init(60),
                              llvm::cl::desc("limit of one instance"));
llvm::cl::opt<std::string> splits("write-splits", llvm::cl::desc("directory for the assignments"));

llvm::cl::opt<unsigned>
    fixedOrder("fixed-order", llvm::cl::init(0),
               llvm::cl::desc("cut a made graph of so many nodes in its order"));
llvm::cl::opt<unsigned> stages("stages", llvm::cl::init(64), llvm::cl::desc("of --fixed-order"));

/// A list of operators as of a deep model: each takes the output of the one before it, some also
/// that of one up to 40 operators back, a few that of one anywhere before.
PartitionProblem madeGraph(uint32_t n) {
  PartitionProblem problem;
  std::mt19937 random(1);
  problem.kinds.resize(1);
  problem.kinds[0].count = stages;
  problem.time.resize(1);
  for (uint32_t node = 0; node < n; ++node) {
    problem.time[0].push_back(1 + random() % 1000);
    problem.memory.push_back(random() % 1000);
    problem.outCost.push_back(random() % 100 * static_cast<double>(random() % 500));
    if (node > 0)
      problem.edges.emplace_back(node - 1, node);
    if (node > 1 && random() % 4 == 0)
      problem.edges.emplace_back(node - 1 - random() % std::min(node, 40u), node);
    if (node > 1 && random() % 10000 == 0)
      problem.edges.emplace_back(random() % node, node);
  }
  problem.order = problem.edges;
  return problem;
}

llvm::Error cutInOrder() {
  PartitionProblem problem = madeGraph(fixedOrder);
  std::clock_t before = std::clock();
  llvm::Expected<PartitionResult> result = partitionInOrder(problem);
  double cpu = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
  if (!result)
    return result.takeError();
  fmt::print("{} nodes, {} edges, {} stages: bottleneck {:.10g} lower bound {:.10g} {:.2f} s (cpu "
             "{:.2f} s)\n",
             problem.nodes(), problem.edges.size(), result->stages.size(), result->bottleneck,
             result->lowerBound, result->seconds, cpu);
  return llvm::Error::success();
}

llvm::Error writeSplit(const PlacementInstance &instance, const PartitionResult &result) {
  std::error_code code;
  llvm::raw_fd_ostream out(splits + "/" + instance.name + ".json", code);
  if (code)
    return failf(ExitCode::IO, "{}: {}", splits.getValue(), code.message());
  out << "{\"assign\":{";
  size_t accelerators = instance.problem.kinds[0].count;
  for (size_t node = 0; node < result.device.size(); ++node) {
    size_t device = result.device[node];
    out << (node ? "," : "") << '"' << instance.nodeId[node] << "\":\""
        << (device < accelerators ? 'a' : 'c')
        << (device < accelerators ? device : device - accelerators) << '"';
  }
  out << "}}\n";
  return llvm::Error::success();
}

llvm::Error solve(const std::string &path) {
  llvm::Expected<PlacementInstance> instance = readInstance(path);
  if (!instance)
    return instance.takeError();
  PartitionOptions options;
  options.seconds = seconds;
  options.byClock = true;
  std::clock_t before = std::clock();
  llvm::Expected<PartitionResult> result = partitionContiguous(instance->problem, options);
  double cpu = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
  if (!result)
    return withContext(result.takeError(), instance->name);
  fmt::print("{:28} bottleneck {:.10g} lower bound {:.10g} {} {:.2f} s (cpu {:.2f} s, {} items, {} "
             "ideals, {} pairs)\n",
             instance->name, result->bottleneck, result->lowerBound,
             result->proved ? "proved" : fmt::format("gap {:.2g}", result->gap()), result->seconds,
             cpu, result->items, result->ideals, result->pairs);
  std::fflush(stdout);
  return splits.empty() ? llvm::Error::success() : writeSplit(*instance, *result);
}

} // namespace

int main(int argc, char **argv) {
  llvm::cl::ParseCommandLineOptions(argc, argv, "partitions every instance of a directory\n");
  int failed = 0;
  auto report = [&](llvm::Error error) {
    if (!error)
      return;
    fmt::print(stderr, "error: {}\n", describe(std::move(error)).message);
    failed = 1;
  };
  if (fixedOrder > 0)
    report(cutInOrder());
  if (directory.empty() && fixedOrder == 0) {
    fmt::print(stderr, "error: expected a directory of instances or --fixed-order, got none\nhelp: "
                       "bench-partition DIR\n");
    return 2;
  }
  if (directory.empty())
    return failed;
  // The data set keeps them in a folder of its own.
  std::string folder = directory + "/throughput";
  if (!llvm::sys::fs::is_directory(folder))
    folder = directory;
  std::vector<std::string> files;
  std::error_code code;
  for (llvm::sys::fs::directory_iterator at(folder, code), end; at != end && !code;
       at.increment(code))
    if (endsWith(at->path(), ".json"))
      files.push_back(at->path());
  std::sort(files.begin(), files.end());
  if (code || files.empty())
    report(
        failf(ExitCode::Unreadable, "{}: expected a directory of instances", directory.getValue()));
  for (const std::string &file : files) {
    llvm::ErrorOr<std::unique_ptr<llvm::MemoryBuffer>> text = llvm::MemoryBuffer::getFile(file);
    if (text && (*text)->getBuffer().contains("\"tp\":")) { // several ways to run a node
      fmt::print(stderr,
                 "error: {}: expected an instance of a partition, got one of Piper\nhelp: "
                 "bench-piper {} solves those\n",
                 file, directory.getValue());
      return 2;
    }
    report(solve(file));
  }
  return failed;
}
