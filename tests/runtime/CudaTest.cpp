// What only a GPU can show. Without one every test skips and says why.
#include "ir/values/Values.h"
#include "runtime/Device.h"
#include "runtime/Pipeline.h"
#include "runtime/RandomKey.h"
#include "runtime/Reference.h"
#include "tests/runtime/SmallPipeline.h"
#include "tests/support/Matchers.h"

#include <ATen/ATen.h>

namespace pipec {
namespace {

/// Before any other test asks LibTorch for a GPU: it remembers the first answer.
const std::string kWhyNoCuda = whyNoCuda();

class Cuda : public testing::Test {
protected:
  void SetUp() override {
    if (!kWhyNoCuda.empty())
      GTEST_SKIP() << kWhyNoCuda;
  }
};

std::vector<c10::IValue> batch() { return {at::arange(7 * 8, at::kFloat).view({7, 8}) / 11, 3}; }

llvm::Expected<Pipeline> loadOnCuda(size_t ranks, int64_t microBatches) {
  SmallModel model;
  model.ranks = ranks;
  std::string directory = scratchPath("model.pipe");
  writeSmallArtifact(directory, model);
  PipelineOptions options;
  options.microBatches = microBatches;
  options.threads = 1;
  options.devices = {"cuda:0"};
  return Pipeline::load(directory, options);
}

/// Three ranks, two, one: several stages on one GPU, a stream each.
TEST_F(Cuda, StagedResultEqualsUnsplitBitForBit) {
  std::string file = scratchPath("model.pt");
  writeSmallModel(file);
  for (size_t ranks : {1, 2, 3}) {
    ReferenceOptions plain;
    plain.microBatches = 3;
    plain.device = "cuda:0";
    auto reference = Reference::load(file, plain);
    ASSERT_TRUE(succeeded(reference));
    auto pipeline = loadOnCuda(ranks, 3);
    ASSERT_TRUE(succeeded(pipeline));
    for (int call = 0; call < 20; ++call) {
      auto expected = reference->infer(batch());
      auto actual = pipeline->infer(batch());
      ASSERT_TRUE(succeeded(expected));
      ASSERT_TRUE(succeeded(actual));
      EXPECT_TRUE(sameBits(*expected, *actual)) << ranks << " ranks, call " << call;
    }
  }
}

TEST_F(Cuda, ResultsLieOnTheGpuAndMemoryIsCounted) {
  auto pipeline = loadOnCuda(2, 2);
  ASSERT_TRUE(succeeded(pipeline));
  StepStats stats;
  auto result = pipeline->infer(batch(), &stats);
  ASSERT_TRUE(succeeded(result));
  EXPECT_TRUE(result->toGenericDict().at("early").toTensor().is_cuda());
  for (int64_t bytes : pipeline->peakMemoryBytes())
    EXPECT_GT(bytes, 0);
  for (int64_t busy : stats.stageBusyNs)
    EXPECT_GT(busy, 0);
}

TEST_F(Cuda, KeyedDrawsRepeat) {
  std::vector<int64_t> fromZero;
  auto draw = [&](uint64_t seed) {
    RandomScope scope({seed, 0, 0}, fromZero);
    return at::dropout(at::ones({1000}, at::kCUDA), 0.5, true) + at::rand({1000}, at::kCUDA);
  };
  at::Tensor first = draw(1);
  EXPECT_TRUE(at::equal(first, draw(1)));
  EXPECT_FALSE(at::equal(first, draw(2)));
}

TEST_F(Cuda, AGpuThatIsNotThereIsAUsageError) {
  EXPECT_TRUE(failedWith(makeDevice("cuda:99"), ExitCode::Usage, "device cuda:99: found"));
}

TEST(Device, NamesThatAreNoDevicesAreRefused) {
  for (const char *name : {"", "gpu", "cuda:", "cuda:x", "cuda0", "cpu:0"})
    EXPECT_TRUE(failedWith(makeDevice(name), ExitCode::Usage, "expected")) << name;
}

TEST(Device, AskingForAGpuWhereNoneIsSaysWhatWasFound) {
  if (whyNoCuda().empty())
    GTEST_SKIP() << "this machine has a GPU";
  EXPECT_TRUE(failedWith(makeDevice("cuda"), ExitCode::Usage, "found no GPU"));
}

TEST(Device, OneNameOrOnePerRank) {
  EXPECT_EQ(llvm::cantFail(deviceNames({}, 2, 2)), (std::vector<std::string>{"cpu", "cpu"}));
  EXPECT_EQ(llvm::cantFail(deviceNames({"cuda:1"}, 2, 4)),
            (std::vector<std::string>{"cuda:1", "cuda:1"}));
  EXPECT_EQ(llvm::cantFail(deviceNames({"cpu", "cuda"}, 2, 2)),
            (std::vector<std::string>{"cpu", "cuda"}));
  EXPECT_TRUE(
      failedWith(deviceNames({"cpu", "cpu"}, 3, 3), ExitCode::Usage, "each of 3 ranks, got 2"));
  ErrorText text =
      describe(deviceNames({"cuda:0", "cuda:1", "cuda:2", "cuda:3"}, 2, 4).takeError());
  EXPECT_EQ(text.message, "devices: expected one, or one for each of 2 ranks, got 4; the artifact "
                          "has 4 stages on 2 ranks");
  EXPECT_EQ(text.help, "compile with --ranks 4 to have one rank per stage");
  EXPECT_TRUE(failedWith(deviceNames({"cpu", "cpu"}, 1, 2), ExitCode::Usage,
                         "devices: expected one, got 2; the artifact has 2 stages on 1 rank"));
}

} // namespace
} // namespace pipec
