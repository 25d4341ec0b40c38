// Many steps of one pipeline, beside other work and beside the caller's own settings.
#include "tests/runtime/SmallPipeline.h"
#include "tests/runtime/SmallTraining.h"
#include "tests/support/Matchers.h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>

#include <atomic>
#include <cstdlib>
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

TEST(RepeatedSteps, AThousandUnderLoadHaveTheBitsOfTheUnsplitModel) {
  if (std::getenv("PIPEC_TEST_STREAMS"))
    GTEST_SKIP() << "a thousand watched steps take minutes";
  Training how{.schedule = "1f1b", .devices = {}};
  how.optimizer = "sgd,lr=0.0001,momentum=0.9";
  const std::string artifact = compileTrained(how);
  Pipeline whole = take(Pipeline::load(artifact, runTrained(how)));
  how.schedule = "zb-v";
  Pipeline split = take(Pipeline::load(artifact, runTrained(how)));
  const std::vector<c10::IValue> batch = trainingBatch();
  const Load load;
  for (int step = 0; step < 1000; ++step) {
    const TrainedStep one = take(whole.step(batch)), other = take(split.step(batch));
    ASSERT_EQ(one.loss, other.loss) << step;
    ASSERT_EQ(one.gradientNorm, other.gradientNorm) << step;
  }
  EXPECT_TRUE(sameBits(whole.state().ivalue(), split.state().ivalue()));
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
