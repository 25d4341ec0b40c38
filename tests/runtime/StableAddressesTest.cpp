// What a training keeps from step to step stays where it is in memory.
#include "runtime/Pipeline.h"
#include "tests/runtime/NotedMemory.h"
#include "tests/runtime/SmallPipeline.h"
#include "tests/runtime/SmallTraining.h"
#include "tests/support/Matchers.h"

#include <ATen/core/Dict.h>
#include <ATen/core/Tensor.h>

#include <cstdlib>
#include <map>

namespace pipec {
namespace {

constexpr int kFirst = 5, kLast = 15;                  // steps
constexpr int64_t kWeightBytes = int64_t(16) * 16 * 4; // of each weight of compileTrained

class StableAddresses : public testing::TestWithParam<const char *> {
protected:
  void SetUp() override {
    if (std::getenv("PIPEC_TEST_STREAMS"))
      GTEST_SKIP() << "it asks for the memory of the CPU";
  }

  static PipelineOptions optionsOf(const Training &how) {
    PipelineOptions options = runTrained(how);
    options.training->clipNorm = 0;
    options.training->keepGradients = false;
    return options;
  }
};

std::map<std::string, const void *> weightsOf(const Pipeline &pipeline) {
  std::map<std::string, const void *> weights;
  const ValueTree state = pipeline.state();
  for (const auto &entry : state.ivalue().toGenericDict())
    if (const std::string name = entry.key().toStringRef(); name != "seen")
      weights[name] = entry.value().toTensor().const_data_ptr();
  return weights;
}

TEST_P(StableAddresses, OfWeights) {
  Training how{.schedule = GetParam(), .devices = {}};
  Pipeline pipeline = take(Pipeline::load(compileTrained(how), optionsOf(how)));
  std::map<std::string, const void *> before;
  for (int step = 1; step <= kLast; ++step) {
    take(pipeline.step(trainingBatch()));
    if (step == kFirst)
      before = weightsOf(pipeline);
    if (step > kFirst) {
      EXPECT_EQ(weightsOf(pipeline), before) << step;
    }
  }
  EXPECT_EQ(before.size(), 6u);
}

/// A step with an optimizer leaves as much new memory as one without: its states are where they
/// were.
TEST_P(StableAddresses, OfTheOptimizersState) {
  auto newBytes = [](const std::string &optimizer) {
    Training how{.schedule = GetParam(), .devices = {}};
    how.optimizer = optimizer;
    how.tied = Tie::Mode::Replicate; // a changed weight is sent anew
    Pipeline pipeline = take(Pipeline::load(compileTrained(how), optionsOf(how)));
    const std::vector<c10::IValue> batch = trainingBatch();
    for (int step = 1; step < kFirst; ++step)
      take(pipeline.step(batch));
    int64_t left = 0;
    for (const Piece &piece : notedPieces([&] {
           for (int step = kFirst; step <= kLast; ++step)
             take(pipeline.step(batch));
         }))
      if (piece.freedBy == std::thread::id())
        left += piece.bytes;
    return left;
  };
  const int64_t gradients = newBytes("");
  EXPECT_GE(gradients, 6 * kWeightBytes); // those of the last step
  for (const char *optimizer :
       {"adamw,lr=0.01", "adam,lr=0.01,amsgrad=1", "sgd,lr=0.01,momentum=0.9",
        "rmsprop,lr=0.01,momentum=0.9", "adagrad,lr=0.01"})
    EXPECT_LT(newBytes(optimizer), gradients + kWeightBytes) << optimizer;
}

INSTANTIATE_TEST_SUITE_P(All, StableAddresses,
                         testing::Values("1f1b", "zb-h1", "interleaved-1f1b", "zb-v"),
                         [](const testing::TestParamInfo<const char *> &one) {
                           std::string name = one.param;
                           for (char &letter : name)
                             letter = letter == '-' ? '_' : letter;
                           return name;
                         });

} // namespace
} // namespace pipec
