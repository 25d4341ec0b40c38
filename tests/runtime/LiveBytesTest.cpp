// The memory that a training holds before and during every op is what the simulator says: trainings
// on devices that have memory of their own, whose allocator is watched.
#include "ir/schedule/Simulate.h"
#include "tests/runtime/LayeredTraining.h"
#include "tests/support/Matchers.h"

#include <cstdlib>

namespace pipec {
namespace {

constexpr int64_t kMicroBatches = 7;

PipelineOptions optionsOf(const std::string &schedule, int64_t microBatches = kMicroBatches) {
  PipelineOptions options = ownMemoryOptions();
  options.scheduleName = schedule;
  options.microBatches = microBatches;
  return options;
}

struct LiveRun {
  std::string schedule;
  size_t stages;
  RecomputeChoice recompute = RecomputeChoice::Never;
};

class LiveBytes : public testing::TestWithParam<LiveRun> {};

TEST_P(LiveBytes, AreTheSimulators) {
  if (std::getenv("PIPEC_TEST_STREAMS"))
    GTEST_SKIP() << "the devices here are its own";
  const LiveRun &run = GetParam();
  const NotedRun noted =
      noteRun(compileLayers(Layers::TanhFirst, run.stages, run.recompute), optionsOf(run.schedule));
  EXPECT_GE(compareOps(noted, costsOf(run.stages, run.recompute == RecomputeChoice::Always)),
            2 * kMicroBatches * run.stages);
}

/// A step leaves the gradients of the weights, and frees what the step before it left.
TEST_P(LiveBytes, StayTheSameFromStepToStep) {
  if (std::getenv("PIPEC_TEST_STREAMS"))
    GTEST_SKIP() << "the devices here are its own";
  const LiveRun &run = GetParam();
  const OwnMemories devices;
  Pipeline pipeline = take(Pipeline::load(
      compileLayers(Layers::TanhFirst, run.stages, run.recompute), optionsOf(run.schedule)));
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
                    LiveRun{"interleaved-zb", 6}, LiveRun{"looped-bfs", 6}, LiveRun{"zb-auto", 3},
                    LiveRun{"zb-v-auto", 4}, LiveRun{"dualpipev", 4},
                    LiveRun{"zb-v", 4, RecomputeChoice::Always},
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
  const NotedRun whole = noteRun(artifact, optionsOf("gpipe", 1)),
                 split = noteRun(artifact, optionsOf("zb-h1", 1));
  ProgramCosts costs = notedCosts(whole.plan, whole.step, split.step);
  for (size_t s = 0; s < run.stages; ++s) {
    // All values that F keeps, and those that it makes.
    EXPECT_GE(costs.stages[s].heldByForward, kLayersPerStage * kLayerBytes) << s;
    EXPECT_GE(costs.room[s].forward, kLayersPerStage * kLayerBytes) << s;
    EXPECT_GE(costs.room[s].backward, kLayersPerStage * kWeightBytes) << s;
    // The walk frees what one product read before it makes the next gradient.
    EXPECT_GE(costs.room[s].weightGrad, kWeightBytes) << s;
    // The plan expects what the run shows to wait for W; at I of stage 0 there is nothing to do.
    const ExpectedCosts &planned = whole.plan.training->costs[s];
    EXPECT_EQ(planned.inputGrad > 0, s > 0) << s;
    EXPECT_EQ(costs.room[s].inputGrad > 0, s > 0) << s;
    EXPECT_EQ(planned.kept - planned.freedByInputGrad, costs.stages[s].freedByWeightGrad()) << s;
  }
  if (run.layers == Layers::TanhLast) // a backward does not free what another stage still keeps
    costs.room.clear();
  EXPECT_GE(compareOps(noteRun(artifact, optionsOf(run.schedule)), costs),
            2 * kMicroBatches * run.stages);
}

INSTANTIATE_TEST_SUITE_P(
    All, MostBytes,
    testing::Values(
        MostRun{"gpipe", 3, Layers::TanhFirst}, MostRun{"zb-h1", 3, Layers::TanhFirst},
        MostRun{"v-min", 4, Layers::TanhFirst}, MostRun{"1f1b", 3, Layers::SiluLast},
        MostRun{"zb-h2", 3, Layers::SiluLast}, MostRun{"interleaved-1f1b", 6, Layers::SiluLast},
        MostRun{"zb-v", 4, Layers::SiluLast}, MostRun{"zb-v", 4, Layers::TanhLast},
        MostRun{"interleaved-zb", 6, Layers::SiluLast}, MostRun{"looped-bfs", 6, Layers::SiluLast},
        MostRun{"zb-auto", 3, Layers::SiluLast}, MostRun{"zb-v-auto", 4, Layers::SiluLast},
        MostRun{"dualpipev", 4, Layers::SiluLast}, MostRun{"v-half", 4, Layers::TanhLast},
        MostRun{"gpipe", 3, Layers::Skip}, MostRun{"1f1b", 3, Layers::Skip},
        MostRun{"zb-h1", 3, Layers::Skip}),
    [](const testing::TestParamInfo<MostRun> &one) {
      std::string name = one.param.schedule + "_" + nameOf(one.param.layers);
      for (char &letter : name)
        letter = letter == '-' ? '_' : letter;
      return name;
    });

/// The most that ranks of 1f1b hold at once, with what waits to be taken and the gradients of their
/// weights: as much for many micro-batches as for few, and what the simulator says.
TEST(PeakBytes, OfManyMicroBatchesAreThoseOfFew) {
  if (std::getenv("PIPEC_TEST_STREAMS"))
    GTEST_SKIP() << "the devices here are its own";
  constexpr int64_t kFew = 8, kMany = 64;
  constexpr size_t kStages = 4; // and as many ranks
  const std::string artifact = compileLayers(Layers::Wide, kStages, RecomputeChoice::Never);
  const NotedRun whole = noteRun(artifact, optionsOf("gpipe", 1)),
                 split = noteRun(artifact, optionsOf("zb-h1", 1));
  const ProgramCosts costs = notedCosts(whole.plan, whole.step, split.step);
  const NotedRun few = noteRun(artifact, optionsOf("1f1b", kFew)),
                 many = noteRun(artifact, optionsOf("1f1b", kMany)),
                 allForwardsFirst = noteRun(artifact, optionsOf("gpipe", kFew));
  const SimulatedRun simulated =
      take(simulate(many.step.trace.program, many.plan, many.step.trace.shape, costs));
  // The simulator leaves out the sums, which stay until the next step.
  const int64_t sums = kLayersPerStage * (kWeightBytes + kWide * 4);
  for (size_t r = 0; r < kStages; ++r) {
    const auto most = static_cast<double>(many.step.most(r)),
               expected = static_cast<double>(simulated.peakBytes[r] + sums);
    EXPECT_LE(most, 1.01 * static_cast<double>(few.step.most(r))) << "rank " << r;
    EXPECT_NEAR(most, expected, 0.05 * expected) << "rank " << r;
    // Of every micro-batch that is between its F and its B, all that tanh gave.
    EXPECT_GE(many.step.most(r),
              static_cast<int64_t>(kStages - r) * kLayersPerStage * kWide * kLayerBytes)
        << "rank " << r;
    EXPECT_GE(allForwardsFirst.step.most(r), kFew * kLayersPerStage * kWide * kLayerBytes)
        << "rank " << r;
  }
}

} // namespace
} // namespace pipec
