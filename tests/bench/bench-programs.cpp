// bench-programs mutants [N]            N programs with one small mistake or none (20,000): checker
//                                       and bounded-buffer executor must judge each the same
// bench-programs scale [RANKS [NAME]]   a schedule of RANKS ranks (1,024), two stages each, four
//                                       micro-batches per rank: generated, lowered, checked,
//                                       simulated
#include "ir/schedule/Generators.h"
#include "ir/schedule/Lower.h"
#include "ir/schedule/Program.h"
#include "ir/schedule/ProgramCheck.h"
#include "ir/schedule/Simulate.h"
#include "llvm/Support/raw_ostream.h"
#include "tests/support/BoundedExecutor.h"
#include "tests/support/Mutants.h"

#include <chrono>
#include <sys/resource.h>

using namespace pipec;

namespace {

/// Of this process: other work on the machine does not count.
double processorSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  auto seconds = [](const timeval &time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double secondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double peakGiB() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / (1 << 20);
}

int mutants(size_t wanted) {
  std::map<Verdict, size_t> verdicts;
  const auto start = std::chrono::steady_clock::now();
  const MutantCount count = countMutants(
      wanted, 20,
      [&](const Program &program, const Plan &plan, const RunShape &shape, bool &valid) {
        const Outcome outcome = execute(program, plan, shape);
        llvm::Error error = check(program, plan, shape);
        valid = !error;
        const std::string said = error ? describe(std::move(error)).message : "";
        ++verdicts[outcome.verdict];
        return said.empty() == (outcome.verdict == Verdict::Runs)
                   ? std::string()
                   : "checker: \"" + said + "\", executor: " + toString(outcome.verdict) + " " +
                         outcome.why + "\n" + toString(program);
      });
  llvm::outs() << fmt::format("{} mutants, {} valid ({:.1f} %), {:.1f} s\n", count.mutants,
                              count.valid,
                              100.0 * static_cast<double>(count.valid) /
                                  static_cast<double>(std::max<size_t>(1, count.mutants)),
                              secondsSince(start));
  for (const auto &[verdict, number] : verdicts)
    llvm::outs() << fmt::format("  {:<14} {}\n", toString(verdict), number);
  const bool enough =
      count.valid * 10 >= count.mutants * 3 && count.valid * 10 <= count.mutants * 7;
  if (!count.difference.empty())
    llvm::outs() << "DIFFERENT: " << count.difference << "\n";
  llvm::outs() << (count.difference.empty() && enough ? "PASSED\n" : "FAILED\n");
  return count.difference.empty() && enough ? 0 : 1;
}

template <typename T> T orDie(llvm::Expected<T> value) {
  if (value)
    return std::move(*value);
  llvm::errs() << "error: " << describe(value.takeError()).message << "\n";
  exit(1);
}

int scale(size_t ranks, llvm::StringRef name) {
  const Generator *generator = findGenerator(name);
  if (!generator) {
    llvm::errs() << "error: no schedule \"" << name << "\"\n";
    return 2;
  }
  ScheduleRequest request;
  request.ranks = ranks;
  request.chunks = 2;
  request.microBatches = static_cast<int64_t>(4 * ranks);
  request.costs = equalCosts({1000, 1000, 1000, 240, 0}, 10, ranks, 2);
  const Plan plan = chainPlan(rankOfStages(generator->placement, ranks, 2));
  RunShape shape;
  shape.microBatches = request.microBatches;
  shape.train = generator->name != "forward-only";
  shape.norm = true;
  ProgramCosts costs;
  costs.stages = request.costs.stages;
  costs.link = {10, 0};

  const auto start = std::chrono::steady_clock::now();
  double last = processorSeconds();
  auto step = [&](const char *what) {
    const double now = processorSeconds();
    llvm::outs() << fmt::format("  {:<26} {:6.2f} s of processor time, at most {:.2f} GiB so far\n",
                                what, now - last, peakGiB());
    llvm::outs().flush();
    last = now;
  };
  llvm::outs() << fmt::format("{}: {} ranks, {} stages, {} micro-batches\n", name.str(), ranks,
                              2 * ranks, request.microBatches);
  Schedule schedule = orDie(makeSchedule(*generator, request));
  step("generate");
  const Program program = orDie(lower(schedule, plan, shape));
  schedule = {};
  step("lower, with its own check");
  if (llvm::Error error = check(program, plan, shape)) {
    llvm::errs() << "error: " << describe(std::move(error)).message << "\n";
    return 1;
  }
  step("check");
  const SimulatedRun run = orDie(simulate(program, plan, shape, costs, false));
  step("simulate");
  size_t ops = 0;
  for (const std::vector<Op> &list : program.ranks)
    ops += list.size();
  llvm::outs() << fmt::format(
      "  {} ops; makespan {}, lower bound {}, bubble_makespan {:.4f}, bubble_longest_span {:.4f}\n",
      ops, run.makespan, run.lowerBound, run.bubbleMakespan(), run.bubbleLongestSpan());
  const double seconds = secondsSince(start);
  const bool good = seconds <= 60 && peakGiB() <= 4;
  llvm::outs() << fmt::format("{}: {:.1f} s, of the processor {:.1f} s, {:.2f} GiB\n",
                              good ? "PASSED" : "FAILED", seconds, processorSeconds(), peakGiB());
  return good ? 0 : 1;
}

} // namespace

int main(int argc, char **argv) {
  const llvm::StringRef what = argc > 1 ? argv[1] : "";
  size_t number = what == "mutants" ? 20000 : 1024;
  const bool badNumber = argc > 2 && llvm::StringRef(argv[2]).getAsInteger(10, number);
  if ((what != "mutants" && what != "scale") || badNumber || number == 0) {
    llvm::errs() << "usage: bench-programs mutants [N] | scale [RANKS [SCHEDULE]]\n";
    return 2;
  }
  return what == "mutants" ? mutants(number)
                           : scale(number, argc > 3 ? argv[3] : "interleaved-1f1b");
}
