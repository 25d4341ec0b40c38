// How often a step of a training allocates memory besides LibTorch.
#include "tests/runtime/SmallPipeline.h"
#include "tests/runtime/SmallTraining.h"
#include "tests/support/CountedNews.h"
#include "tests/support/Matchers.h"

#include <algorithm>
#include <cstdlib>

namespace pipec {
namespace {

struct NewsRun {
  std::string schedule;
  RecomputeChoice recompute = RecomputeChoice::Never;
};

class OwnNews : public testing::TestWithParam<NewsRun> {};

/// Lists, tapes and nodes of a micro-batch are used again: a step allocates for itself, and nothing
/// per micro-batch.
TEST_P(OwnNews, AStepMakesAsManyForManyMicroBatchesAsForFew) {
  if (!std::getenv("PIPEC_TEST_NEWS"))
    GTEST_SKIP() << "runs in a process of its own: devices that note every operator allocate";
  if (!test::countsNews())
    GTEST_SKIP() << "sanitizers have their own operator new";
  const Training how{
      .schedule = GetParam().schedule, .devices = {}, .recompute = GetParam().recompute};
  const std::string artifact = compileTrained(how);
  auto ofStep = [&](int64_t microBatches) {
    PipelineOptions options = runTrained(how);
    options.microBatches = microBatches;
    Pipeline pipeline = take(Pipeline::load(artifact, options));
    const std::vector<c10::IValue> batch = trainingBatch();
    for (int step = 0; step < 5; ++step)
      take(pipeline.step(batch));
    std::vector<size_t> counts(9); // a thread that an earlier test left may allocate beside one
    for (size_t &count : counts) {
      const size_t before = test::ownNews();
      take(pipeline.step(batch));
      count = test::ownNews() - before;
    }
    std::nth_element(counts.begin(), counts.begin() + 4, counts.end());
    return counts[4];
  };
  EXPECT_EQ(ofStep(6), ofStep(4));
}

INSTANTIATE_TEST_SUITE_P(All, OwnNews,
                         testing::Values(NewsRun{"gpipe"}, NewsRun{"1f1b"},
                                         NewsRun{"1f1b", RecomputeChoice::Always}, NewsRun{"zb-h1"},
                                         NewsRun{"zb-v"}),
                         [](const testing::TestParamInfo<NewsRun> &one) {
                           std::string name =
                               one.param.schedule +
                               (one.param.recompute == RecomputeChoice::Always ? "_recompute" : "");
                           for (char &letter : name)
                             letter = letter == '-' ? '_' : letter;
                           return name;
                         });

} // namespace
} // namespace pipec
