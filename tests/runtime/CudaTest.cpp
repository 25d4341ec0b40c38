// What only a GPU can show. Without one every test skips and says why.
#include "ir/values/CompareValues.h"
#include "runtime/CudaDevice.h"
#include "runtime/Device.h"
#include "runtime/Pipeline.h"
#include "runtime/RandomKey.h"
#include "runtime/Reference.h"
#include "tests/runtime/SmallPipeline.h"
#include "tests/runtime/SmallTraining.h"
#include "tests/support/Matchers.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>

#include <atomic>
#include <thread>

namespace pipec {
namespace {

/// Before any other test asks LibTorch for a GPU: it remembers the first answer.
const std::string kWhyNoCuda = [] {
  llvm::Expected<int> count = cudaDeviceCount();
  return count ? std::string() : describe(count.takeError()).message;
}();

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

/// Schedules with whole and split backwards, recomputation, shared weights sent and copied.
TEST_F(Cuda, TrainingHasTheBitsOfTheUnsplitModel) {
  for (const Training &how :
       {Training{"1f1b", {"cuda:0"}}, Training{"zb-h1", {"cuda:0"}, Tie::Mode::Replicate},
        Training{"interleaved-1f1b", {"cuda:0"}, Tie::Mode::Transmit, RecomputeChoice::Always},
        Training{"zb-v", {"cuda:0"}, Tie::Mode::Replicate, RecomputeChoice::Always}}) {
    std::string model;
    auto pipeline = Pipeline::load(compileTrained(how, &model), runTrained(how));
    ASSERT_TRUE(succeeded(pipeline));
    ReferenceOptions plain;
    plain.microBatches = 4;
    plain.device = "cuda:0";
    auto reference = Reference::load(model, plain);
    ASSERT_TRUE(succeeded(reference));
    ASSERT_TRUE(succeeded(reference->train(*runTrained(how).training)));
    for (int step = 0; step < 3; ++step) {
      auto expected = reference->step(trainingBatch());
      auto actual = pipeline->step(trainingBatch());
      ASSERT_TRUE(succeeded(expected));
      ASSERT_TRUE(succeeded(actual));
      EXPECT_NEAR(expected->loss, actual->loss, 1e-6 * std::abs(expected->loss)) << how.schedule;
    }
    // The sum of the shared weight is made in another order.
    EXPECT_TRUE(
        compare(reference->gradients().ivalue(), pipeline->gradients().ivalue(), 1e-4, 1e-6).equal)
        << how.schedule;
  }
}

/// The checkpoint holds the optimizer's state on the CPU.
TEST_F(Cuda, AResumedTrainingHasTheBitsOfOneThatGoesOn) {
  for (const char *optimizer : {"sgd,lr=0.05,momentum=0.9", "adamw,lr=0.01", "adagrad,lr=0.05"}) {
    Training how{"1f1b", {"cuda:0"}};
    how.optimizer = optimizer;
    const std::string artifact = compileTrained(how);
    const std::string checkpoints = scratchPath("cuda.checkpoints");
    auto whole = Pipeline::load(artifact, runTrained(how));
    ASSERT_TRUE(succeeded(whole));
    ASSERT_TRUE(succeeded(whole->step(trainingBatch())));
    ASSERT_TRUE(succeeded(whole->saveCheckpoint(checkpoints)));
    auto resumed = Pipeline::load(artifact, runTrained(how));
    ASSERT_TRUE(succeeded(resumed));
    ASSERT_TRUE(succeeded(resumed->resume(checkpoints)));
    ASSERT_TRUE(succeeded(whole->step(trainingBatch())));
    ASSERT_TRUE(succeeded(resumed->step(trainingBatch())));
    EXPECT_TRUE(sameBits(whole->state().ivalue(), resumed->state().ivalue())) << optimizer;
  }
}

std::atomic<int64_t> hostWaits = 0;

/// Operators that return a number to the host, or a size that depends on data.
std::unique_ptr<at::ObserverContext> noteHostWait(const at::RecordFunction &function) {
  for (const char *name : {"aten::_local_scalar_dense", "aten::nonzero", "aten::equal"})
    if (function.name() == std::string_view(name) && !function.inputs().empty() &&
        function.inputs().back().isTensor() && function.inputs().back().toTensor().is_cuda())
      ++hostWaits;
  return nullptr;
}

/// A rank looks once whether all is finite; the caller reads the loss and the norm.
TEST_F(Cuda, TheHostWaitsOncePerRankAndStep) {
  const Training how{"1f1b", {"cuda:0"}};
  auto pipeline = Pipeline::load(compileTrained(how), runTrained(how));
  ASSERT_TRUE(succeeded(pipeline));
  ASSERT_TRUE(succeeded(pipeline->step(trainingBatch())));
  hostWaits = 0;
  const at::CallbackHandle handle = at::addGlobalCallback(at::RecordFunctionCallback(&noteHostWait)
                                                              .needsInputs(true)
                                                              .scopes({at::RecordScope::FUNCTION}));
  EXPECT_TRUE(succeeded(pipeline->step(trainingBatch())));
  at::removeCallback(handle);
  EXPECT_EQ(hostWaits, 4 + 2);
}

/// Dropout, attention and a recurrent network that cuDNN runs: none has a generator argument.
std::vector<at::Tensor> drawWithoutGenerators(uint64_t microBatch) {
  static const std::vector<int64_t> inOrder;
  RandomScope scope({7, 1, microBatch}, inOrder);
  const at::Tensor x = at::ones({2, 4, 64, 32}, at::kCUDA), steps = x[0];
  std::vector<at::Tensor> weights;
  for (int64_t inputs : {32, 16}) { // of the two layers
    weights.push_back(at::full({64, inputs}, 0.05, x.options()));
    weights.push_back(at::full({64, 16}, 0.05, x.options()));
    for (int bias = 0; bias < 2; ++bias)
      weights.push_back(at::full({64}, 0.05, x.options()));
  }
  const at::Tensor state = at::zeros({2, 64, 16}, x.options());
  // Without dropout: it leaves the generator alone that another thread may have seeded.
  at::scaled_dot_product_attention(x, x, x, {}, 0.0);
  return {std::get<0>(at::native_dropout(x, 0.5, true)),
          at::scaled_dot_product_attention(x, x, x, {}, 0.5),
          std::get<0>(at::lstm(steps, {state, state}, weights, /*has_biases=*/true,
                               /*num_layers=*/2, /*dropout=*/0.5, /*train=*/true,
                               /*bidirectional=*/false, /*batch_first=*/false))};
}

/// As for a recompute.
TEST_F(Cuda, DrawsOfOperatorsWithoutGeneratorRepeat) {
  const std::vector<at::Tensor> first = drawWithoutGenerators(0), again = drawWithoutGenerators(0),
                                other = drawWithoutGenerators(1);
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_TRUE(at::equal(first[i], again[i])) << i;
    EXPECT_FALSE(at::equal(first[i], other[i])) << i;
  }
}

/// As the ranks that share a GPU do: one generator for all.
TEST_F(Cuda, ThreadsDrawAsIfAlone) {
  const std::vector<at::Tensor> expected = drawWithoutGenerators(0);
  std::atomic<int> different = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        const std::vector<at::Tensor> drawn = drawWithoutGenerators(0);
        for (size_t each = 0; each < drawn.size(); ++each)
          different += !at::equal(expected[each], drawn[each]);
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(different, 0);
}

TEST_F(Cuda, AGpuThatIsNotThereIsAUsageError) {
  EXPECT_TRUE(failedWith(makeDevice("cuda:99"), ExitCode::Usage, "device cuda:99: found"));
}

TEST(Device, NamesThatAreNoDevicesAreRefused) {
  for (const char *name : {"", "gpu", "cuda:", "cuda:x", "cuda0", "cpu:0"})
    EXPECT_TRUE(failedWith(makeDevice(name), ExitCode::Usage, "expected")) << name;
}

TEST(Device, AskingForAGpuWhereNoneIsSaysWhatWasFound) {
  if (kWhyNoCuda.empty())
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
