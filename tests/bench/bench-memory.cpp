// bench-memory: how much memory of tensors a rank needs under different schedules.
//
//   bench-memory DIRECTORY [--ranks P | --device NAME]
//
// A chain of equal layers is compiled in DIRECTORY, with one and with two stages per rank, and
// trained under each schedule that pipec can generate, without an optimizer. Every rank has a
// device with memory of its own, which copies what arrives, on the CPU. "most": the largest number
// of bytes of tensors that a rank holds at once, median of 5 steps, with the gradients of the
// weights; weights are not part of it, they are mapped files. "simulated": the peak of the same
// program by ir/schedule/Simulate.h and the gradients of the rank's weights. What the ops hold and
// need is noted in steps of one micro-batch, with B and with I and W, on a rank for each stage.
// "ratio": most / simulated. "of 1f1b": most / most under 1f1b with as many micro-batches.
//
// --device cuda:0: one rank on this GPU has all stages, and "most" is the peak of LibTorch's
// allocator in a step, less what the step finds there. What the ops need is noted on the CPU all
// the same. The exit code is 1 if a ratio is not between 0.9 and 1.1: a walk of LibTorch's engine
// may hold a result of one of the 32 layers longer than a walk on the CPU does.
#include "compiler/Compiler.h"
#include "ir/schedule/Simulate.h"
#include "ir/support/Median.h"
#include "ir/values/ValueTree.h"
#include "llvm/Support/Error.h"
#include "runtime/Device.h"
#include "runtime/Pipeline.h"
#include "tests/bench/TrainingSchedules.h"
#include "tests/runtime/NotedMemory.h"
#include "tests/support/TestModels.h"

#include <fmt/format.h>

#include <ATen/Functions.h>
#include <c10/core/CachingDeviceAllocator.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

using namespace pipec;

llvm::ExitOnError must; // a benchmark that fails says why

namespace {

constexpr size_t kWidth = 64, kLayersPerStage = 2;
constexpr int64_t kSamples = 256;
constexpr double kLeastRatio = 0.9, kMostRatio = 1.1; // on a device
constexpr int64_t kResultBytes = kSamples * kWidth * 4, kWeightBytes = kWidth * kWidth * 4;

void writeModel(const std::string &path, const std::string &activation, size_t layers) {
  test::SavedModule model{.name = "Chain"};
  std::string source = "def forward(self, x):\n";
  for (size_t i = 0; i < layers; ++i) {
    model.modules.push_back(
        {fmt::format("l{}", i),
         {.name = fmt::format("Layer{}", i),
          .parameters = {{"w", at::eye(kWidth).set_requires_grad(true)}},
          .source = fmt::format("def forward(self, x):\n    return {}(torch.matmul(x, self.w))\n",
                                activation)}});
    source += fmt::format("    x = self.l{}.forward(x)\n", i);
  }
  model.source = source + "    return torch.mean(x * x)\n";
  std::ofstream(path, std::ios::binary) << test::bytesOf(model);
}

std::string compiled(const std::string &directory, const std::string &activation, size_t stages,
                     size_t layers) {
  const std::string model = directory + "/chain.pt";
  writeModel(model, activation, layers);
  CompileOptions options;
  options.mode = Mode::Train;
  options.recompute = RecomputeChoice::Never;
  options.cost = AnalyticCosts();
  options.inputs = fmt::format("f32[{},{}]", kSamples, kWidth);
  options.stages = stages; // one stage has no cut
  for (size_t s = 1; s < stages; ++s)
    options.cuts.push_back(AtModule{fmt::format("l{}", s * layers / stages)});
  options.schedule = NamedSchedule{"gpipe"};
  const std::string artifact = fmt::format("{}/{}.pipe", directory, stages);
  Compiler compiler = must(Compiler::load(model));
  must(compiler.compile(options, artifact, /*force=*/true));
  return artifact;
}

/// The device "own" needs OwnMemories.
Pipeline load(const std::string &artifact, const std::string &schedule, int64_t microBatches,
              const std::string &device = "own") {
  PipelineOptions options;
  options.microBatches = microBatches;
  options.scheduleName = schedule;
  options.threads = 1;
  options.devices = {device};
  options.training.emplace();
  return must(Pipeline::load(artifact, options));
}

std::vector<c10::IValue> batchOf(int64_t microBatches, const std::string &device = "cpu") {
  return {at::ones({kSamples * microBatches, static_cast<int64_t>(kWidth)}, at::Device(device))};
}

NotedStep oneMicroBatch(const std::string &artifact, const std::string &schedule, Plan &plan) {
  const OwnMemories devices;
  Pipeline pipeline = load(artifact, schedule, 1);
  plan = pipeline.plan();
  must(pipeline.step(batchOf(1)));
  return must(noteStep(pipeline, batchOf(1)));
}

ProgramCosts costsOf(const std::string &artifact) {
  Plan plan;
  const NotedStep whole = oneMicroBatch(artifact, "gpipe", plan),
                  split = oneMicroBatch(artifact, "zb-h1", plan);
  return notedCosts(plan, whole, split);
}

struct Run {
  size_t ranks = 4, layers = 0;
  std::string device; // empty: one with memory of its own for each rank
};

/// The most that a rank allocates in a step and frees later.
int64_t mostOfRanks(Pipeline &pipeline, const std::vector<c10::IValue> &batch) {
  const NotedStep step = must(noteStep(pipeline, batch));
  int64_t most = 0;
  for (size_t r = 0; r < step.ranks.size(); ++r)
    most = std::max(most, step.most(r));
  return most;
}

/// The same of a GPU. A step begins with the `gradients` of the step before, which it frees.
int64_t mostOfDevice(Pipeline &pipeline, const std::vector<c10::IValue> &batch, int64_t gradients) {
  constexpr size_t kAggregate = 0;
  const c10::Device where = batch.front().toTensor().device();
  c10::DeviceAllocator &allocator = *c10::getDeviceAllocator(where.type());
  auto allocated = [&] {
    return allocator.getDeviceStats(where.index()).allocated_bytes[kAggregate];
  };
  const int64_t before = allocated().current - gradients;
  allocator.resetPeakStats(where.index());
  must(pipeline.step(batch));
  return allocated().peak - before;
}

struct Most {
  int64_t measured = 0, simulated = 0;
  double ratio() const { return static_cast<double>(measured) / static_cast<double>(simulated); }
};

Most mostOf(const Run &run, const std::string &artifact, const std::string &schedule,
            int64_t microBatches, const ProgramCosts &costs) {
  const bool isOwn = run.device.empty();
  std::optional<OwnMemories> devices;
  if (isOwn)
    devices.emplace();
  Pipeline pipeline = load(artifact, schedule, microBatches, isOwn ? "own" : run.device);
  const int64_t gradients = static_cast<int64_t>(run.layers / run.ranks) * kWeightBytes;
  const std::vector<c10::IValue> batch = batchOf(microBatches, isOwn ? "cpu" : run.device);
  must(pipeline.step(batch));
  std::vector<int64_t> mosts;
  for (int i = 0; i < 5; ++i)
    mosts.push_back(isOwn ? mostOfRanks(pipeline, batch)
                          : mostOfDevice(pipeline, batch, gradients));
  const RunTrace trace = must(pipeline.trace());
  const SimulatedRun simulated = must(simulate(trace.program, pipeline.plan(), trace.shape, costs));
  return {medianOf(mosts),
          *std::max_element(simulated.peakBytes.begin(), simulated.peakBytes.end()) + gradients};
}

/// Whether all ratios are right.
bool compareAll(const std::string &directory, const Run &run, const std::string &activation) {
  constexpr int64_t kFew = 8, kMany = 64; // micro-batches
  const std::vector<bench::TrainingSchedule> schedules =
      bench::trainingSchedules(run.ranks, {kFew, kMany});
  const std::string one = compiled(directory, activation, run.ranks, run.layers),
                    two = compiled(directory, activation, 2 * run.ranks, run.layers);
  const ProgramCosts ofOne = costsOf(one), ofTwo = costsOf(two);
  fmt::print("{} rank{}, {} layers with {}; a result of a layer has {} KiB\n"
             "{:<18}{:>14}{:>12}{:>16}{:>8}{:>10}\n",
             run.ranks, run.ranks == 1 ? "" : "s", run.layers, activation, kResultBytes / 1024,
             "schedule", "micro-batches", "most, KiB", "simulated, KiB", "ratio", "of 1f1b");
  bool isRight = true;
  for (const int64_t m : {kFew, kMany}) {
    double first = 0; // of 1f1b
    for (const auto &[name, stagesPerRank] : schedules) {
      const bool isDouble = stagesPerRank == 2;
      const Most most = mostOf(run, isDouble ? two : one, name, m, isDouble ? ofTwo : ofOne);
      const bool isNear =
          run.device.empty() || (kLeastRatio <= most.ratio() && most.ratio() <= kMostRatio);
      isRight = isRight && isNear;
      const auto measured = static_cast<double>(most.measured);
      first = first > 0 ? first : measured;
      fmt::print("{:<18}{:>14}{:>12}{:>16}{:>8.3f}{:>10.3f}{}\n", name, m, most.measured / 1024,
                 most.simulated / 1024, most.ratio(), measured / first, isNear ? "" : "  TOO FAR");
      std::fflush(stdout);
    }
  }
  return isRight;
}

} // namespace

int main(int argc, char **argv) {
  Run run;
  const std::string option = argc == 4 ? argv[2] : "";
  if (option == "--ranks")
    run.ranks = std::strtoull(argv[3], nullptr, 10);
  else if (option == "--device")
    run = {.ranks = 1, .device = argv[3]};
  if ((argc != 2 && option != "--ranks" && option != "--device") || run.device == "cpu") {
    fmt::print(stderr, "usage: bench-memory DIRECTORY [--ranks P | --device NAME]\n"
                       "NAME is a GPU: the allocator of the CPU keeps no peak\n");
    return 2;
  }
  run.layers = run.device.empty() ? 2 * run.ranks * kLayersPerStage : 32;
  if (!run.device.empty())
    must(makeDevice(run.device)); // before LibTorch looks for its GPU library
  std::filesystem::create_directories(argv[1]);
  bool isRight = true;
  for (const char *activation : {"torch.tanh", "torch.silu"})
    isRight &= compareAll(argv[1], run, activation);
  return isRight ? 0 : 1;
}
