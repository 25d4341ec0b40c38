// bench-compile: how the time and memory of a compile into 8 stages grow with the model.
//
//   bench-compile DIRECTORY NODES... [--runs N] [--flat] [--inputs TEXT] [--phases]
//
// Each model is made in DIRECTORY and compiled N times (default 5) in this process; a line has the
// medians, of wall time and, for machines that do other things as well, of processor time.
// "load+save" is LibTorch's own reading and writing of TorchScript during the compile, "rest" all
// other work, "plain" one torch.jit.load and torch.jit.save of the model without pipec. With
// --flat all code is in one function instead of a module for each 100 operators, with --inputs the
// compile also runs the model, and chooses the cuts itself.
#include "compiler/Compiler.h"
#include "ir/support/Median.h"
#include "ir/torchfile/TorchFileTime.h"
#include "tests/bench/BenchModels.h"
#include "tests/support/TestModels.h"
#include "tools/cli/FreedMemory.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <ctime>
#include <filesystem>

using namespace pipec;

namespace {

constexpr size_t kStages = 8;

struct Options {
  std::string directory, inputs;
  std::vector<size_t> nodes;
  int runs = 5;
  bool flat = false, phases = false;
};

/// Seconds.
struct Share {
  double torch = 0, rest = 0;
  double total() const { return torch + rest; }
};

struct Sample {
  Share wall, cpu;
  int64_t peakBytes = 0;
  std::vector<PhaseTime> phases;
};

double cpuSeconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

[[noreturn]] void stop(const std::string &message) {
  fmt::print(stderr, "bench-compile: {}\n", message);
  std::exit(1);
}

Sample compileOnce(const std::string &path, size_t nodes, const Options &options) {
  CompileOptions compile;
  compile.stages = kStages;
  compile.inputs = options.inputs;
  compile.nearest = true; // the places below are counted
  if (options.inputs.empty())
    compile.cuts.push_back(CutPredicate([&](const NodeView &node) {
      const size_t part = bench::topLevelNodes(nodes) / kStages;
      return node.index % part == 0 && node.index / part < kStages;
    }));
  const double cpu = cpuSeconds();
  const int64_t torchCpu = torchFileNs().cpu;
  llvm::Expected<Compiler> compiler = Compiler::load(path);
  if (!compiler)
    stop(describe(compiler.takeError()).message);
  llvm::Expected<CompileReport> report =
      compiler->compile(compile, options.directory + "/out.pipe", /*force=*/true);
  if (!report)
    stop(describe(report.takeError()).message);
  Sample sample;
  sample.wall.torch = static_cast<double>(report->torchFileNs) / 1e9;
  sample.cpu.torch = static_cast<double>(torchFileNs().cpu - torchCpu) / 1e9;
  for (const PhaseTime &phase : report->phases)
    sample.wall.rest += static_cast<double>(phase.ns) / 1e9;
  sample.wall.rest -= sample.wall.torch;
  sample.cpu.rest = cpuSeconds() - cpu - sample.cpu.torch;
  sample.peakBytes = report->peakMemoryBytes;
  sample.phases = std::move(report->phases);
  return sample;
}

struct Row {
  double nodes, wall, cpu;
};

std::string medians(const std::vector<Share> &shares) {
  std::vector<double> torch, rest, ratio;
  for (const Share &share : shares) {
    torch.push_back(share.torch);
    rest.push_back(share.rest);
    ratio.push_back(share.rest / share.torch);
  }
  return fmt::format(" | {:>9.3f} {:>9.3f} {:>5.2f}", medianOf(torch), medianOf(rest),
                     medianOf(ratio));
}

double medianTotal(const std::vector<Share> &shares) {
  std::vector<double> totals;
  for (const Share &share : shares)
    totals.push_back(share.total());
  return medianOf(totals);
}

/// Prints the line of one size.
Row measure(size_t nodes, const Options &options) {
  const std::string path =
      fmt::format("{}/{}-{}.pt", options.directory, options.flat ? "flat" : "layers", nodes);
  if (!std::filesystem::exists(path)) {
    bench::writeNodesModel(path + ".new", nodes,
                           options.flat ? bench::Code::Flat : bench::Code::Layers);
    std::filesystem::rename(path + ".new", path);
  }
  std::vector<Share> wall, cpu;
  std::vector<double> plain;
  Sample last;
  for (int run = 0; run < options.runs; ++run) {
    last = compileOnce(path, nodes, options);
    wall.push_back(last.wall);
    cpu.push_back(last.cpu);
    const double before = cpuSeconds();
    test::loadAndSave(path);
    plain.push_back(cpuSeconds() - before);
  }
  fmt::print("{:>8}{}{} {:>9.3f} | {:>6.2f}\n", nodes, medians(wall), medians(cpu), medianOf(plain),
             static_cast<double>(last.peakBytes) / (1 << 30));
  if (options.phases)
    for (const PhaseTime &phase : last.phases)
      fmt::print("  {:<36} {:>9.3f}\n", phase.name, static_cast<double>(phase.ns) / 1e9);
  std::fflush(stdout);
  return {static_cast<double>(nodes), medianTotal(wall), medianTotal(cpu)};
}

Options readOptions(int argc, char **argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string text = argv[i];
    if ((text == "--runs" || text == "--inputs") && i + 1 < argc)
      text == "--runs" ? void(options.runs = std::atoi(argv[++i]))
                       : void(options.inputs = argv[++i]);
    else if (text == "--flat")
      options.flat = true;
    else if (text == "--phases")
      options.phases = true;
    else if (options.directory.empty())
      options.directory = text;
    else
      options.nodes.push_back(std::strtoull(argv[i], nullptr, 10));
  }
  if (options.nodes.empty() || options.runs < 1)
    stop("usage: bench-compile DIRECTORY NODES... [--runs N] [--flat] [--inputs TEXT] [--phases]");
  std::filesystem::create_directories(options.directory);
  return options;
}

} // namespace

int main(int argc, char **argv) {
  const Options options = readOptions(argc, argv);
  keepFreedMemory(); // as pipe-compile does
  fmt::print("seconds, medians of {}; peak of the process in GiB\n{:>8}", options.runs, "nodes");
  fmt::print(" | {:>9} {:>9} {:>5}", "wall:l+s", "rest", "ratio");
  fmt::print(" | {:>9} {:>9} {:>5} {:>9} | {:>6}\n", "cpu:l+s", "rest", "ratio", "plain", "peak");
  std::vector<Row> rows;
  for (size_t nodes : options.nodes)
    rows.push_back(measure(nodes, options));
  if (rows.size() < 2)
    return 0;
  const double decades = std::log(rows.back().nodes / rows.front().nodes);
  fmt::print("log-log slope of the total, first to last: wall {:.3f}, cpu {:.3f}\n",
             std::log(rows.back().wall / rows.front().wall) / decades,
             std::log(rows.back().cpu / rows.front().cpu) / decades);
  return 0;
}
