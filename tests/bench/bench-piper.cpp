// bench-piper DIR [--plans DIR]: the instances of Piper, for every number of devices and memory of
// the authors' experiments: a line each, rechecked by scoreHybrid.
#include "compiler/planner/hybrid/HybridScore.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/raw_ostream.h"
#include "tests/support/piper/ReadPiper.h"

#include <fmt/core.h>

#include <ctime>

using namespace pipec;

namespace {

llvm::cl::opt<std::string> directory(llvm::cl::Positional, llvm::cl::Required,
                                     llvm::cl::desc("DIR"));
llvm::cl::opt<std::string> plans("plans", llvm::cl::desc("directory for the plans"));
llvm::cl::opt<std::string> only("only", llvm::cl::desc("one instance"));
llvm::cl::opt<int64_t> onlyDevices("devices", llvm::cl::init(0), llvm::cl::desc("one column"));

struct Experiment {
  const char *name;
  std::vector<int64_t> devices;
  std::vector<const char *> memory; // GiB
};

const Experiment kExperiments[] = {
    {"bert32a100", {8, 32, 64, 128, 512, 1024}, {"1", "2", "8", "80"}},
    {"resnet50", {8, 16, 32, 64, 128}, {"4", "8", "16"}},
    {"gnmt", {2}, {"2.5", "3.5"}},
};

llvm::Error solve(const HybridProblem &instance, const std::string &name, int64_t devices,
                  llvm::StringRef gib) {
  HybridProblem problem = instance;
  double memory = 0;
  gib.getAsDouble(memory);
  problem.devices = devices;
  problem.memory = memory * (1 << 30);
  const std::clock_t before = std::clock();
  llvm::Expected<HybridPlan> plan = planHybrid(problem, {.seconds = 600});
  const double cpu = double(std::clock() - before) / CLOCKS_PER_SEC;
  const std::string what = fmt::format("{} k={} {} GiB", name, devices, gib.str());
  if (!plan) {
    const ErrorText why = describe(plan.takeError());
    fmt::print("{:28} {} (cpu {:.2f} s)\n", what, why.message, cpu);
    return why.code == ExitCode::NoPlan ? llvm::Error::success() : makeError(why.code, why.message);
  }
  llvm::Expected<HybridScore> score = scoreHybrid(problem, plan->stages);
  if (!score)
    return score.takeError();
  fmt::print("{:28} {:.10g} lower bound {:.10g} {} {} stages, {} devices, {} ideals (cpu {:.2f} "
             "s)\n",
             what, score->value, plan->lowerBound, plan->proved ? "proved," : "not proved,",
             plan->stages.size(), score->devices, plan->ideals, cpu);
  std::fflush(stdout);
  if (plans.empty())
    return llvm::Error::success();
  std::error_code code;
  llvm::raw_fd_ostream out(
      fmt::format("{}/{}_k{}_m{}.json", plans.getValue(), name, devices, gib.str()), code);
  if (code)
    return failf(ExitCode::IO, "{}: {}", plans.getValue(), code.message());
  out << piperPlanText(problem, plan->stages);
  return llvm::Error::success();
}

} // namespace

int main(int argc, char **argv) {
  llvm::cl::ParseCommandLineOptions(argc, argv, "plans every instance of Piper\n");
  int failed = 0;
  for (const Experiment &experiment : kExperiments) {
    if (!only.empty() && only != experiment.name)
      continue;
    llvm::Expected<HybridProblem> problem = readPiper(directory + "/" + experiment.name + ".json");
    llvm::Error error = problem ? llvm::Error::success() : problem.takeError();
    for (int64_t devices : experiment.devices)
      for (const char *memory : experiment.memory)
        if (!error && (onlyDevices == 0 || onlyDevices == devices))
          error = solve(*problem, experiment.name, devices, memory);
    if (!error)
      continue;
    fmt::print(stderr, "error: {}\n", describe(std::move(error)).message);
    failed = 1;
  }
  return failed;
}
