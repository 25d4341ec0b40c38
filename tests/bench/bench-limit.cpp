// bench-limit: steps of a pipeline against the same work in bare loops.
//
//   bench-limit ARTIFACT INPUTS.pt [--microbatches M] [--ranks P] [--schedule NAME] [--steps N]
//
// Prints "ready", then a line for each line of standard input, so that a script can run other
// programs in turn: medians of N steps (default 10), in milliseconds.
//
//   step     a call of the pipeline, with cutting and merging; one intra-op thread per rank
//   alone    the limit by bare loops that run one after the other
//   at once  the limit by bare loops that run at the same time
//
// A bare loop is a thread that runs all micro-batches of one rank's stages with LibTorch's own
// calls (BareStages.h): F, in a training with B behind it, in the order of GPipe under `gpipe`, of
// 1F1B under all others. The schedule says which rank has which stages. With --ranks, a schedule
// that has another number of ranks ends the program, with exit code 2.
//
// Each bare loop and each rank of the pipeline has one core of its own, as long as there are
// enough. The pipeline's caller, which cuts the batch, waits and merges, may use all of them.
//
// The limit is the time of the slowest rank's loop, times (M + P - 1) / M. A rank has M
// micro-batches of work, and in a fill-drain schedule of equal stages it has to wait P - 1
// micro-batches more: the published bubble of GPipe and of 1F1B. Schedules with several stages per
// rank, or with split backwards, have less of it, and can be faster than this limit. "at once" is
// the fair one where cores share caches, memory and power: a pipeline keeps all of them busy, too.
#include "ir/autograd/TrainingSettings.h"
#include "ir/support/Llvm.h"
#include "ir/support/Median.h"
#include "ir/values/ValueFiles.h"
#include "llvm/Support/Error.h"
#include "runtime/Pipeline.h"
#include "tests/bench/BareStages.h"
#include "tools/cli/FreedMemory.h"

#include <fmt/format.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <optional>
#include <sched.h>
#include <set>
#include <thread>

using namespace pipec;

llvm::ExitOnError must; // a benchmark that fails says why

namespace {

constexpr const char *kUsage = "usage: bench-limit ARTIFACT INPUTS.pt [--microbatches M] [--ranks "
                               "P] [--schedule NAME] [--steps N]\n";

struct Settings {
  std::string artifact, inputs, schedule;
  size_t microBatches = 8, ranks = 0, steps = 10;
};

std::optional<Settings> readSettings(int argc, char **argv) {
  if (argc < 3 || argc % 2 == 0)
    return std::nullopt;
  Settings settings{argv[1], argv[2], "", 8, 0, 10};
  for (int i = 3; i < argc; i += 2) {
    const std::string option = argv[i];
    size_t *number = option == "--microbatches" ? &settings.microBatches
                     : option == "--ranks"      ? &settings.ranks
                     : option == "--steps"      ? &settings.steps
                                                : nullptr;
    if (option == "--schedule")
      settings.schedule = argv[i + 1];
    else if (!number || (*number = std::strtoull(argv[i + 1], nullptr, 10)) == 0)
      return std::nullopt;
  }
  return settings;
}

template <typename Body> double milliseconds(Body &&body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return static_cast<double>((std::chrono::steady_clock::now() - start) /
                             std::chrono::nanoseconds(1)) /
         1e6;
}

[[noreturn]] void fail(const std::string &why) {
  fmt::print(stderr, "bench-limit: {}\n", why);
  std::exit(2);
}

constexpr pid_t kThisThread = 0;

/// Puts the thread on the n-th of the cores that it may use, counted round.
void putOnCore(pid_t thread, size_t n) {
  cpu_set_t usable, one;
  CPU_ZERO(&one);
  if (sched_getaffinity(thread, sizeof(usable), &usable) != 0)
    fail(fmt::format("the cores of thread {} cannot be read", thread));
  n %= static_cast<size_t>(CPU_COUNT(&usable));
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &usable) && n-- == 0)
      CPU_SET(core, &one);
  if (sched_setaffinity(thread, sizeof(one), &one) != 0)
    fail(fmt::format("thread {} cannot be put on a core", thread));
}

/// The threads of this process, as Linux lists them.
std::set<pid_t> threadsOfProcess() {
  std::set<pid_t> threads;
  for (const auto &entry : std::filesystem::directory_iterator("/proc/self/task"))
    threads.insert(std::stoi(entry.path().filename().string()));
  return threads;
}

/// Of the slowest rank, in milliseconds.
struct LoopTimes {
  double alone = 0, atOnce = 0;
};

/// The bare loops of all ranks, each on a thread and a core of its own.
class BareLoops {
public:
  /// plan: where the pipeline has its stages.
  BareLoops(std::vector<bench::BareStage> stages, const Settings &settings, const Plan &plan)
      : stages_(std::move(stages)), settings_(settings), plan_(plan) {}

  LoopTimes measure() {
    const size_t ranks = plan_.ranks;
    std::vector<double> alone(ranks);
    std::vector<std::vector<double>> atOnce(settings_.steps, std::vector<double>(ranks));
    std::barrier together(static_cast<std::ptrdiff_t>(ranks));
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] {
        putOnCore(kThisThread, rank);
        const InferenceSettings infers(1);
        std::optional<TrainingSettings> training;
        if (trains())
          training.emplace(1);
        loop(rank); // memory of this thread
        for (size_t turn = 0; turn < ranks; ++turn) {
          together.arrive_and_wait();
          if (turn == rank)
            alone[rank] = medianLoop(rank);
        }
        for (std::vector<double> &step : atOnce) {
          together.arrive_and_wait();
          step[rank] = milliseconds([&] { loop(rank); });
        }
      });
    for (std::thread &thread : threads)
      thread.join();
    std::vector<double> slowest;
    for (const std::vector<double> &step : atOnce)
      slowest.push_back(*std::max_element(step.begin(), step.end()));
    return {*std::max_element(alone.begin(), alone.end()), medianOf(slowest)};
  }

private:
  bool trains() const { return plan_.mode == Mode::Train; }
  void loop(size_t rank) {
    for (size_t s = 0; s < stages_.size(); ++s) {
      if (plan_.stages[s].rank != rank)
        continue;
      if (!trains())
        stages_[s].infer();
      else
        stages_[s].train(settings_.schedule == "gpipe" ? settings_.microBatches
                                                       : plan_.ranks - rank);
    }
  }
  double medianLoop(size_t rank) {
    std::vector<double> times;
    for (size_t i = 0; i < settings_.steps; ++i)
      times.push_back(milliseconds([&] { loop(rank); }));
    return medianOf(times);
  }

  std::vector<bench::BareStage> stages_;
  const Settings &settings_;
  const Plan &plan_;
};

/// Each rank on a core of its own: its threads are the ones that loading adds.
Pipeline loadPipeline(const Settings &settings, bool trains) {
  PipelineOptions options;
  options.threads = 1;
  options.microBatches = static_cast<int64_t>(settings.microBatches);
  options.scheduleName = settings.schedule;
  if (trains)
    options.training.emplace();
  const std::set<pid_t> before = threadsOfProcess();
  Pipeline pipeline = must(Pipeline::load(settings.artifact, options));
  const size_t ranks = pipeline.plan().ranks;
  if (settings.ranks > 0 && settings.ranks != ranks)
    fail(fmt::format("--ranks {}: the pipeline has {} ranks", settings.ranks, ranks));
  size_t rank = 0;
  for (const pid_t thread : threadsOfProcess())
    if (!before.count(thread))
      putOnCore(thread, rank++);
  if (rank != ranks)
    fail(fmt::format("loading started {} threads, expected one for each of {} ranks", rank, ranks));
  return pipeline;
}

/// A median, after a call that is not measured: other programs ran before it.
double measureSteps(Pipeline &pipeline, const std::vector<c10::IValue> &batch, bool trains,
                    size_t steps) {
  std::vector<double> times;
  for (size_t i = 0; i <= steps; ++i)
    times.push_back(milliseconds([&] {
      if (trains)
        must(pipeline.step(batch));
      else
        must(pipeline.infer(batch));
    }));
  times.erase(times.begin());
  return medianOf(times);
}

void rounds(const Settings &settings) {
  const Artifact artifact = must(openArtifact(settings.artifact));
  const bool trains = artifact.plan.mode == Mode::Train;
  Pipeline pipeline = loadPipeline(settings, trains);
  const std::vector<c10::IValue> batch = must(pipeline.bind(must(readArguments(settings.inputs))));
  BareLoops loops(bench::bareStages(artifact, batch, static_cast<int64_t>(settings.microBatches)),
                  settings, pipeline.plan());
  measureSteps(pipeline, batch, trains, 3); // warm-up
  fmt::print("ready\n");
  std::fflush(stdout);
  const auto m = static_cast<double>(settings.microBatches),
             p = static_cast<double>(pipeline.plan().ranks);
  for (std::string line; std::getline(std::cin, line);) {
    const double step = measureSteps(pipeline, batch, trains, settings.steps);
    const LoopTimes times = loops.measure();
    const double inFull = (m + p - 1) / m;
    fmt::print("step {:.4f}  alone {:.4f}  at once {:.4f}\n", step, times.alone * inFull,
               times.atOnce * inFull);
    std::fflush(stdout);
  }
}

} // namespace

int main(int argc, char **argv) {
  const std::optional<Settings> settings = readSettings(argc, argv);
  if (!settings) {
    fmt::print(stderr, kUsage);
    return 2;
  }
  keepFreedMemory();
  rounds(*settings);
}
