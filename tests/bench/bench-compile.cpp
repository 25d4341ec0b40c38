// bench-compile: how the time and memory of a compile into 8 stages grow with the model.
//
//   bench-compile DIRECTORY NODES... [--runs N] [--inputs TEXT]
//
// Each model is made in DIRECTORY and compiled N times (default 5) in this process; a line has the
// medians. "load+save" is LibTorch's own reading and writing of TorchScript during the compile,
// "rest" all other work, "plain" one torch.jit.load and torch.jit.save of the model without pipec.
// With --inputs the compile also runs the model, and chooses the cuts itself.
#include "compiler/Compiler.h"
#include "tests/bench/BenchModels.h"
#include "tests/support/TestModels.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <sys/resource.h>

using namespace pipec;

namespace {

constexpr size_t kStages = 8;

struct Options {
  std::string directory, inputs;
  std::vector<size_t> nodes;
  int runs = 5;
};

/// Seconds; `phases` in the order of the compile.
struct Sample {
  double torch = 0, rest = 0, user = 0;
  int64_t peakBytes = 0;
  std::vector<PhaseTime> phases;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double userSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec) / 1e6;
}

double seconds(const std::function<void()> &work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

[[noreturn]] void stop(const std::string &message) {
  fmt::print(stderr, "bench-compile: {}\n", message);
  std::exit(1);
}

Sample compileOnce(const std::string &path, size_t nodes, const Options &options) {
  CompileOptions compile;
  compile.stages = kStages;
  compile.inputs = options.inputs;
  if (options.inputs.empty())
    for (const std::string &name : bench::evenCuts(nodes, kStages))
      compile.cuts.push_back(AtModule{name});
  const double user = userSeconds();
  llvm::Expected<Compiler> compiler = Compiler::load(path);
  if (!compiler)
    stop(describe(compiler.takeError()).message);
  llvm::Expected<CompileReport> report =
      compiler->compile(compile, options.directory + "/out.pipe", /*force=*/true);
  if (!report)
    stop(describe(report.takeError()).message);
  Sample sample;
  sample.user = userSeconds() - user;
  sample.torch = static_cast<double>(report->torchFileNs) / 1e9;
  for (const PhaseTime &phase : report->phases)
    sample.rest += static_cast<double>(phase.ns) / 1e9;
  sample.rest -= sample.torch;
  sample.peakBytes = report->peakMemoryBytes;
  sample.phases = std::move(report->phases);
  return sample;
}

struct Row {
  double nodes, total;
};

/// Prints the line of one size.
Row measure(size_t nodes, const Options &options) {
  const std::string path = fmt::format("{}/nodes-{}.pt", options.directory, nodes);
  if (!std::filesystem::exists(path))
    bench::writeNodesModel(path, nodes);
  std::vector<double> torch, rest, ratio, total, user, plain;
  Sample last;
  for (int run = 0; run < options.runs; ++run) {
    last = compileOnce(path, nodes, options);
    torch.push_back(last.torch);
    rest.push_back(last.rest);
    ratio.push_back(last.rest / last.torch);
    total.push_back(last.torch + last.rest);
    user.push_back(last.user);
    plain.push_back(seconds([&] { test::loadAndSave(path); }));
  }
  fmt::print("{:>8} {:>11.3f} {:>9.3f} {:>6.2f} {:>9.3f} {:>9.3f} {:>9.3f} {:>9.2f}\n", nodes,
             median(torch), median(rest), median(ratio), median(total), median(user), median(plain),
             static_cast<double>(last.peakBytes) / (1 << 30));
  for (const PhaseTime &phase : last.phases)
    fmt::print(stderr, "  {:<36} {:>9.3f}\n", phase.name, static_cast<double>(phase.ns) / 1e9);
  std::fflush(stdout);
  return {static_cast<double>(nodes), median(total)};
}

Options readOptions(int argc, char **argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string text = argv[i];
    if ((text == "--runs" || text == "--inputs") && i + 1 < argc)
      text == "--runs" ? void(options.runs = std::atoi(argv[++i]))
                       : void(options.inputs = argv[++i]);
    else if (options.directory.empty())
      options.directory = text;
    else
      options.nodes.push_back(std::strtoull(argv[i], nullptr, 10));
  }
  if (options.nodes.empty() || options.runs < 1)
    stop("usage: bench-compile DIRECTORY NODES... [--runs N] [--inputs TEXT]");
  std::filesystem::create_directories(options.directory);
  return options;
}

} // namespace

int main(int argc, char **argv) {
  const Options options = readOptions(argc, argv);
  fmt::print("medians of {}, seconds; peak of the process in GiB\n", options.runs);
  fmt::print("{:>8} {:>11} {:>9} {:>6} {:>9} {:>9} {:>9} {:>9}\n", "nodes", "load+save", "rest",
             "ratio", "total", "user CPU", "plain", "peak");
  std::vector<Row> rows;
  for (size_t nodes : options.nodes)
    rows.push_back(measure(nodes, options));
  if (rows.size() > 1)
    fmt::print("log-log slope of the total, first to last: {:.3f}\n",
               std::log(rows.back().total / rows.front().total) /
                   std::log(rows.back().nodes / rows.front().nodes));
  return 0;
}
