// A transmitted weight travels when its owner has changed it, and only then.
#include "tests/runtime/OwnMemory.h"
#include "tests/runtime/SmallPipeline.h"
#include "tests/runtime/SmallTraining.h"
#include "tests/support/Matchers.h"

#include <gtest/gtest.h>

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdlib>
#include <optional>

namespace pipec {
namespace {

/// Counts the weights, 16 x 16, that come from the owner of the shared one. Its gradients come to
/// the owner, and its transpose travels between other ranks.
class Counting final : public OwnMemory {
public:
  static inline std::atomic<int64_t> weights = 0;
  static inline std::atomic<const Device *> owner = nullptr; // of rank 0

private:
  void arrives(const at::Tensor &tensor, const Device &from) override {
    weights += &from == owner && tensor.sizes() == at::IntArrayRef({16, 16});
  }
};

/// While it lives, "counting" is the name of such a device.
class CountingDevices {
public:
  CountingDevices() { Counting::owner = nullptr; }

private:
  TestDevices devices_{[](const std::string &) -> std::shared_ptr<Device> {
    auto device = std::make_shared<Counting>();
    const Device *none = nullptr;
    Counting::owner.compare_exchange_strong(none, device.get());
    return device;
  }};
};

/// The weights that were sent since the last question.
int64_t arrived() { return Counting::weights.exchange(0); }

TEST(WeightTransfers, AWeightIsSentWhenItHasChanged) {
  if (std::getenv("PIPEC_TEST_STREAMS"))
    GTEST_SKIP() << "the devices here are its own";
  const Training how{.schedule = "1f1b", .devices = {"counting"}};
  const std::vector<std::vector<c10::IValue>> three(3, trainingBatch());
  c10::IValue expected;
  for (const std::vector<std::string> &devices : {std::vector<std::string>{"cpu"}, how.devices}) {
    const bool counts = devices == how.devices;
    std::optional<CountingDevices> own;
    if (counts)
      own.emplace();
    PipelineOptions options = runTrained(how);
    options.devices = devices;
    Pipeline pipeline = take(Pipeline::load(compileTrained(how), options));
    const int64_t loaded = counts ? arrived() : 0;
    take(pipeline.step(trainingBatch()));
    const int64_t first = counts ? arrived() : 0;
    take(pipeline.stepOnBatches(three));
    const int64_t accumulated = counts ? arrived() : 0;
    take(pipeline.step(trainingBatch()));
    const int64_t last = counts ? arrived() : 0;
    const c10::IValue state = pipeline.state().ivalue();
    if (!counts) {
      expected = mapTensors(state, [](const at::Tensor &tensor) { return tensor.clone(); });
      continue;
    }
    EXPECT_EQ(loaded, 1);
    EXPECT_EQ(first, 1);
    EXPECT_EQ(accumulated, 1) << "three batches, one update before them";
    EXPECT_EQ(last, 1);
    EXPECT_TRUE(sameBits(expected, state));
  }
}

TEST(WeightTransfers, AFrozenWeightIsSentOnce) {
  if (std::getenv("PIPEC_TEST_STREAMS"))
    GTEST_SKIP() << "the devices here are its own";
  const CountingDevices own;
  const Training how{.schedule = "1f1b", .devices = {"counting"}};
  PipelineOptions options = runTrained(how);
  options.training->freeze = {"w0"};
  Pipeline pipeline = take(Pipeline::load(compileTrained(how), options));
  arrived();
  take(pipeline.step(trainingBatch()));
  EXPECT_EQ(arrived(), 1);
  take(pipeline.step(trainingBatch()));
  EXPECT_EQ(arrived(), 0);
}

} // namespace
} // namespace pipec
