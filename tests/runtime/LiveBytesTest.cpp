// The memory that a training holds before and during every op is what the simulator says: trainings
// on devices that have memory of their own, whose allocator is watched.
#include "compiler/Compiler.h"
#include "ir/schedule/OpMemory.h"
#include "runtime/Pipeline.h"
#include "tests/runtime/NotedMemory.h"
#include "tests/runtime/SmallPipeline.h"
#include "tests/support/Matchers.h"
#include "tests/support/TestModels.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/ones.h>

#include <cstdlib>
#include <fstream>

namespace pipec {
namespace {

constexpr int64_t kSamples = 32, kWidth = 16, kLayersPerStage = 2, kMicroBatches = 7;
constexpr int64_t kLayerBytes = kSamples * kWidth * 4; // of a result
constexpr int64_t kWeightBytes = kWidth * kWidth * 4;

enum class Layers {
  /// tanh(x) @ w, of which F keeps one value: the product needs what tanh gave, tanh needs it too,
  /// and nothing needs the product, which is what goes over a cut.
  TanhFirst,
  /// silu(x @ w): F keeps two values, one of them what went over the cut before the stage.
  SiluLast,
  /// tanh(x @ w): what goes over a cut is kept on both sides, and on one rank it is there once.
  TanhLast,
  /// TanhFirst, and what stage 0 makes goes to stage 1, and to stage 2 as well.
  Skip,
};

const char *expressionOf(Layers layers) {
  switch (layers) {
  case Layers::SiluLast:
    return "torch.silu(torch.matmul(x, self.w))";
  case Layers::TanhLast:
    return "torch.tanh(torch.matmul(x, self.w))";
  default:
    return "torch.matmul(torch.tanh(x), self.w)";
  }
}

std::string compileLayers(Layers layers, size_t stages, RecomputeChoice recompute) {
  test::SavedModule model{.name = "Layers"};
  std::string source = "def forward(self, x):\n";
  CompileOptions options;
  for (size_t i = 0; i < stages * kLayersPerStage; ++i) {
    const std::string layer = fmt::format("l{}", i);
    model.modules.push_back(
        {layer,
         {.name = fmt::format("Layer{}", i),
          .parameters = {{"w", at::eye(kWidth).set_requires_grad(true)}},
          .source = fmt::format("def forward(self, x):\n    return {}\n", expressionOf(layers))}});
    source += fmt::format("    x = self.{}.forward(x)\n", layer);
    if (layers == Layers::Skip && i + 1 == kLayersPerStage)
      source += "    skipped = x\n";
    if (layers == Layers::Skip && i == 2 * kLayersPerStage)
      source += "    x = torch.sub(x, skipped)\n"; // each has a gradient of its own
    if (i > 0 && i % kLayersPerStage == 0)
      options.cuts.push_back(AtModule{layer});
  }
  model.source = source + "    return torch.mean(x * x)\n";
  const std::string path = scratchPath("layers.pt"), artifact = scratchPath("layers.pipe");
  std::ofstream(path, std::ios::binary) << bytesOf(model);
  options.mode = Mode::Train;
  options.recompute = recompute;
  options.cost = AnalyticCosts();
  options.inputs = fmt::format("f32[{},{}]", kSamples, kWidth);
  options.schedule = NamedSchedule{"gpipe"};
  Compiler compiler = take(Compiler::load(path));
  EXPECT_TRUE(succeeded(compiler.compile(options, artifact, /*force=*/true)));
  return artifact;
}

/// What a micro-batch holds, worked out by hand. F keeps what tanh gave in every layer, the last
/// stage also its result, which the loss squares. A pending W needs what tanh gave and the gradient
/// of every product.
ProgramCosts costsOf(size_t stages, bool recomputed) {
  ProgramCosts costs;
  for (size_t s = 0; s < stages; ++s) {
    const int64_t kept = (kLayersPerStage + (s + 1 == stages ? 1 : 0)) * kLayerBytes;
    // Stage 0 has no input gradient: its W makes the gradients of the inner products.
    const int64_t pending = (s == 0 ? kLayersPerStage + 1 : 2 * kLayersPerStage) * kLayerBytes;
    costs.stages.push_back({.heldByForward = kept, .freedByInputGrad = kept - pending});
    if (recomputed)
      costs.keptToRecompute.push_back(s == 0 ? 0 : kLayerBytes); // stage 0: the user's memory
  }
  return costs;
}

struct LiveRun {
  std::string schedule;
  size_t stages;
  RecomputeChoice recompute = RecomputeChoice::Never;
};

std::vector<c10::IValue> batchOf(int64_t microBatches) {
  return {at::ones({microBatches * kSamples, kWidth})};
}

/// Needs OwnMemories.
Pipeline loadOnOwnMemories(const std::string &artifact, const std::string &schedule,
                           int64_t microBatches) {
  PipelineOptions options;
  options.microBatches = microBatches;
  options.threads = 1;
  options.devices = {"own"};
  options.scheduleName = schedule;
  options.training.emplace();
  return take(Pipeline::load(artifact, options));
}

struct NotedRun {
  Plan plan;
  NotedStep step;
};

NotedRun noteRun(const std::string &artifact, const std::string &schedule, int64_t microBatches) {
  const OwnMemories devices;
  Pipeline pipeline = loadOnOwnMemories(artifact, schedule, microBatches);
  take(pipeline.step(batchOf(microBatches)));
  NotedStep step = take(noteStep(pipeline, batchOf(microBatches)));
  return {pipeline.plan(), std::move(step)};
}

/// Before every op, and if the costs have the room of ops, during it. Returns the number of ops.
size_t compareOps(const NotedRun &run, const ProgramCosts &costs) {
  size_t compared = 0;
  for (size_t r = 0; r < run.step.ranks.size(); ++r) {
    OpMemory memory(run.plan, run.step.trace.shape, costs);
    int64_t expected = 0;
    for (const NotedOp &noted : run.step.ranks[r]) {
      if (isCompute(noted.op.kind)) {
        const std::string what = fmt::format("rank {}, {}", r, toString(noted.op));
        EXPECT_EQ(run.step.heldBefore(r, noted), expected) << "before " << what;
        if (!costs.room.empty()) {
          EXPECT_EQ(run.step.mostDuring(r, noted), memory.mostDuring(noted.op)) << what;
        }
        ++compared;
      }
      expected += memory.atStart(noted.op) - memory.atEnd(r, noted.op);
    }
    EXPECT_EQ(expected, 0) << "rank " << r << ", at the end";
  }
  return compared;
}

class LiveBytes : public testing::TestWithParam<LiveRun> {};

TEST_P(LiveBytes, AreTheSimulators) {
  if (std::getenv("PIPEC_TEST_STREAMS"))
    GTEST_SKIP() << "the devices here are its own";
  const LiveRun &run = GetParam();
  const NotedRun noted = noteRun(compileLayers(Layers::TanhFirst, run.stages, run.recompute),
                                 run.schedule, kMicroBatches);
  ProgramCosts costs = costsOf(run.stages, run.recompute == RecomputeChoice::Always);
  costs.takesAllocate = true;
  EXPECT_GE(compareOps(noted, costs), 2 * kMicroBatches * run.stages);
}

/// A step leaves the gradients of the weights, and frees what the step before it left.
TEST_P(LiveBytes, StayTheSameFromStepToStep) {
  if (std::getenv("PIPEC_TEST_STREAMS"))
    GTEST_SKIP() << "the devices here are its own";
  const LiveRun &run = GetParam();
  const OwnMemories devices;
  Pipeline pipeline = loadOnOwnMemories(compileLayers(Layers::TanhFirst, run.stages, run.recompute),
                                        run.schedule, kMicroBatches);
  const std::vector<c10::IValue> batch = batchOf(kMicroBatches);
  auto leftBy = [&](int steps) {
    int64_t left = 0;
    for (const Piece &piece : notedPieces([&] {
           for (int step = 0; step < steps; ++step)
             take(pipeline.step(batch));
         }))
      if (piece.freedBy == std::thread::id())
        left += piece.bytes;
    return left;
  };
  leftBy(2);
  const int64_t one = leftBy(1);
  EXPECT_GE(one, static_cast<int64_t>(run.stages * kLayersPerStage) * kWeightBytes);
  EXPECT_EQ(leftBy(5), one);
}

INSTANTIATE_TEST_SUITE_P(
    All, LiveBytes,
    testing::Values(LiveRun{"gpipe", 3}, LiveRun{"1f1b", 3},
                    LiveRun{"1f1b", 3, RecomputeChoice::Always}, LiveRun{"eager-1f1b", 3},
                    LiveRun{"zb-h1", 3}, LiveRun{"zb-h2", 3}, LiveRun{"interleaved-1f1b", 6},
                    LiveRun{"zb-v", 4}, LiveRun{"v-half", 4}, LiveRun{"v-min", 4},
                    LiveRun{"gpipe", 4, RecomputeChoice::Always}),
    [](const testing::TestParamInfo<LiveRun> &one) {
      std::string name =
          one.param.schedule + (one.param.recompute == RecomputeChoice::Always ? "_recompute" : "");
      for (char &letter : name)
        letter = letter == '-' ? '_' : letter;
      return name;
    });

struct MostRun {
  std::string schedule;
  size_t stages;
  Layers layers;
};

const char *nameOf(Layers layers) {
  return layers == Layers::TanhFirst  ? "tanh"
         : layers == Layers::SiluLast ? "silu"
         : layers == Layers::TanhLast ? "shared"
                                      : "skip";
}

class MostBytes : public testing::TestWithParam<MostRun> {};

/// Whatever the schedule, an op holds and needs what it does where one micro-batch goes through the
/// stages alone, each on a rank of its own.
TEST_P(MostBytes, AreThoseOfOneMicroBatch) {
  if (std::getenv("PIPEC_TEST_STREAMS"))
    GTEST_SKIP() << "the devices here are its own";
  const MostRun &run = GetParam();
  const std::string artifact = compileLayers(run.layers, run.stages, RecomputeChoice::Never);
  const NotedRun whole = noteRun(artifact, "gpipe", 1), split = noteRun(artifact, "zb-h1", 1);
  ProgramCosts costs = notedCosts(whole.plan, whole.step, split.step);
  for (size_t s = 0; s < run.stages; ++s) {
    // All values that F keeps, and those that it makes.
    EXPECT_GE(costs.stages[s].heldByForward, kLayersPerStage * kLayerBytes) << s;
    EXPECT_GE(costs.room[s].forward, kLayersPerStage * kLayerBytes) << s;
    EXPECT_GE(costs.room[s].backward, kLayersPerStage * kWeightBytes) << s;
    EXPECT_GE(costs.room[s].weightGrad, kLayersPerStage * kWeightBytes) << s;
  }
  if (run.layers == Layers::TanhLast) // a backward does not free what another stage still keeps
    costs.room.clear();
  EXPECT_GE(compareOps(noteRun(artifact, run.schedule, kMicroBatches), costs),
            2 * kMicroBatches * run.stages);
}

INSTANTIATE_TEST_SUITE_P(
    All, MostBytes,
    testing::Values(MostRun{"gpipe", 3, Layers::TanhFirst}, MostRun{"zb-h1", 3, Layers::TanhFirst},
                    MostRun{"v-min", 4, Layers::TanhFirst}, MostRun{"1f1b", 3, Layers::SiluLast},
                    MostRun{"zb-h2", 3, Layers::SiluLast},
                    MostRun{"interleaved-1f1b", 6, Layers::SiluLast},
                    MostRun{"zb-v", 4, Layers::SiluLast}, MostRun{"zb-v", 4, Layers::TanhLast},
                    MostRun{"v-half", 4, Layers::TanhLast}, MostRun{"gpipe", 3, Layers::Skip},
                    MostRun{"1f1b", 3, Layers::Skip}, MostRun{"zb-h1", 3, Layers::Skip}),
    [](const testing::TestParamInfo<MostRun> &one) {
      std::string name = one.param.schedule + "_" + nameOf(one.param.layers);
      for (char &letter : name)
        letter = letter == '-' ? '_' : letter;
      return name;
    });

} // namespace
} // namespace pipec
