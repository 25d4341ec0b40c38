// bench-memory: how much memory of tensors a rank needs under different schedules.
//
//   bench-memory DIRECTORY [--ranks P]
//
// A chain of equal layers is compiled in DIRECTORY, with one and with two stages per rank, and
// trained under each schedule that pipec can generate, without an optimizer. Every rank has a
// device with memory of its own, which copies what arrives, on the CPU. "most": the largest number
// of bytes of tensors that a rank holds at once, median of 5 steps, with the gradients of the
// weights; weights are not part of it, they are mapped files. "simulated": the peak of the same
// program by ir/schedule/Simulate.h and the gradients of the rank's weights. What the ops hold and
// need is noted in steps of one micro-batch, with B and with I and W, on a rank for each stage.
// "ratio": most / simulated. "of 1f1b": most / most under 1f1b with as many micro-batches.
#include "compiler/Compiler.h"
#include "ir/schedule/Simulate.h"
#include "ir/support/Median.h"
#include "ir/values/ValueTree.h"
#include "llvm/Support/Error.h"
#include "runtime/Pipeline.h"
#include "tests/bench/TrainingSchedules.h"
#include "tests/runtime/NotedMemory.h"
#include "tests/support/TestModels.h"

#include <fmt/format.h>

#include <ATen/Functions.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

using namespace pipec;

llvm::ExitOnError must; // a benchmark that fails says why

namespace {

constexpr size_t kWidth = 64, kLayersPerStage = 2;
constexpr int64_t kSamples = 256;
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
  for (size_t s = 1; s < stages; ++s)
    options.cuts.push_back(AtModule{fmt::format("l{}", s * layers / stages)});
  options.schedule = NamedSchedule{"gpipe"};
  const std::string artifact = fmt::format("{}/{}.pipe", directory, stages);
  Compiler compiler = must(Compiler::load(model));
  must(compiler.compile(options, artifact, /*force=*/true));
  return artifact;
}

/// Needs OwnMemories.
Pipeline load(const std::string &artifact, const std::string &schedule, int64_t microBatches) {
  PipelineOptions options;
  options.microBatches = microBatches;
  options.scheduleName = schedule;
  options.threads = 1;
  options.devices = {"own"};
  options.training.emplace();
  return must(Pipeline::load(artifact, options));
}

std::vector<c10::IValue> batchOf(int64_t microBatches) {
  return {at::ones({kSamples * microBatches, static_cast<int64_t>(kWidth)})};
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

struct Most {
  int64_t measured = 0, simulated = 0;
};

Most mostOf(const std::string &artifact, const std::string &schedule, int64_t microBatches,
            const ProgramCosts &costs, size_t layers) {
  const OwnMemories devices;
  Pipeline pipeline = load(artifact, schedule, microBatches);
  const std::vector<c10::IValue> batch = batchOf(microBatches);
  must(pipeline.step(batch));
  std::vector<int64_t> mosts;
  RunTrace trace;
  for (int i = 0; i < 5; ++i) {
    const NotedStep step = must(noteStep(pipeline, batch));
    int64_t &most = mosts.emplace_back(0);
    for (size_t r = 0; r < step.ranks.size(); ++r)
      most = std::max(most, step.most(r));
    trace = step.trace;
  }
  const SimulatedRun run = must(simulate(trace.program, pipeline.plan(), trace.shape, costs));
  const size_t ranks = trace.program.ranks.size();
  return {medianOf(mosts), *std::max_element(run.peakBytes.begin(), run.peakBytes.end()) +
                               static_cast<int64_t>(layers / ranks) * kWeightBytes};
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 2 && !(argc == 4 && std::string(argv[2]) == "--ranks")) {
    fmt::print(stderr, "usage: bench-memory DIRECTORY [--ranks P]\n");
    return 2;
  }
  const size_t ranks = argc == 4 ? std::strtoull(argv[3], nullptr, 10) : 4;
  std::filesystem::create_directories(argv[1]);
  const int64_t few = 8, many = 64; // micro-batches
  const std::vector<bench::TrainingSchedule> schedules =
      bench::trainingSchedules(ranks, {few, many});
  const size_t layers = 2 * ranks * kLayersPerStage;
  for (const char *activation : {"torch.tanh", "torch.silu"}) {
    const std::string one = compiled(argv[1], activation, ranks, layers),
                      two = compiled(argv[1], activation, 2 * ranks, layers);
    const ProgramCosts ofOne = costsOf(one), ofTwo = costsOf(two);
    fmt::print("{} ranks, {} layers with {}; a result of a layer has {} KiB\n"
               "{:<18}{:>14}{:>12}{:>16}{:>8}{:>10}\n",
               ranks, layers, activation, kResultBytes / 1024, "schedule", "micro-batches",
               "most, KiB", "simulated, KiB", "ratio", "of 1f1b");
    for (const int64_t m : {few, many}) {
      double first = 0;
      for (const auto &[name, stagesPerRank] : schedules) {
        const bool isDouble = stagesPerRank == 2;
        const Most most = mostOf(isDouble ? two : one, name, m, isDouble ? ofTwo : ofOne, layers);
        const auto measured = static_cast<double>(most.measured);
        first = first > 0 ? first : measured;
        fmt::print("{:<18}{:>14}{:>12}{:>16}{:>8.3f}{:>10.3f}\n", name, m, most.measured / 1024,
                   most.simulated / 1024, measured / static_cast<double>(most.simulated),
                   measured / first);
        std::fflush(stdout);
      }
    }
  }
}
