// Many steps of one pipeline, beside other work and beside the caller's own settings.
#include "ir/values/CompareValues.h"
#include "runtime/Reference.h"
#include "tests/runtime/SmallPipeline.h"
#include "tests/runtime/SmallTraining.h"
#include "tests/support/Matchers.h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <thread>

namespace pipec {
namespace {

/// Threads that keep all cores busy, so that ranks are stopped at any point of their program.
class Load {
public:
  Load() {
    for (unsigned i = 0; i < std::max(2u, std::thread::hardware_concurrency()); ++i)
      threads_.emplace_back([this] {
        while (!ends_)
          ++turns_;
      });
  }
  ~Load() {
    ends_ = true;
    for (std::thread &thread : threads_)
      thread.join();
  }

private:
  std::atomic<bool> ends_ = false;
  std::atomic<uint64_t> turns_ = 0;
  std::vector<std::thread> threads_;
};

/// In every bit, whatever the order of names.
bool sameNumbers(const ValueTree &a, const ValueTree &b) {
  return compare(a.ivalue(), b.ivalue(), 0, 0).equal;
}

TEST(RepeatedSteps, AThousandUnderLoadHaveTheBitsOfTheUnsplitModel) {
  if (std::getenv("PIPEC_TEST_STREAMS"))
    GTEST_SKIP() << "a thousand watched steps take minutes";
  // The gradient of a weight in several stages would be summed in another order.
  Training how{.schedule = "1f1b", .devices = {}, .sharesWeight = false};
  how.optimizer = "sgd,lr=0.0001,momentum=0.9";
  std::string model;
  const std::string artifact = compileTrained(how, &model);
  const PipelineOptions options = runTrained(how);
  ReferenceOptions alone;
  alone.microBatches = options.microBatches;
  alone.threads = 1;
  Reference reference = take(Reference::load(model, alone));
  ASSERT_TRUE(succeeded(reference.train(*options.training)));
  std::map<std::string, Pipeline> pipelines;
  for (const char *schedule : {"1f1b", "zb-v"}) {
    how.schedule = schedule;
    pipelines.emplace(schedule, take(Pipeline::load(artifact, runTrained(how))));
  }
  const std::vector<c10::IValue> batch = trainingBatch();
  const Load load;
  for (int step = 0; step < 1000; ++step) {
    const TrainedStep expected = take(reference.step(batch));
    for (auto &[schedule, pipeline] : pipelines) {
      const TrainedStep got = take(pipeline.step(batch));
      ASSERT_EQ(got.loss, expected.loss) << schedule << ", step " << step;
      ASSERT_EQ(got.gradientNorm, expected.gradientNorm) << schedule << ", step " << step;
      ASSERT_TRUE(sameNumbers(reference.gradients(), pipeline.gradients()))
          << schedule << ", step " << step;
    }
  }
  for (auto &[schedule, pipeline] : pipelines)
    EXPECT_TRUE(sameNumbers(reference.state(), pipeline.state())) << schedule;
}

TEST(RepeatedSteps, TheCallersGradModeAndThreadsStay) {
  const Training how{.schedule = "1f1b", .devices = {}};
  Pipeline pipeline = take(Pipeline::load(compileTrained(how), runTrained(how)));
  for (const bool on : {true, false}) {
    const at::AutoGradMode grad(on);
    const int threads = at::get_num_threads();
    take(pipeline.step(trainingBatch()));
    EXPECT_EQ(at::GradMode::is_enabled(), on);
    EXPECT_EQ(at::get_num_threads(), threads);
  }
}

} // namespace
} // namespace pipec
