// What only a GPU can show. Without one every test skips and says why.
#include "ir/values/CompareValues.h"
#include "runtime/CudaDevice.h"
#include "runtime/Device.h"
#include "runtime/Pipeline.h"
#include "runtime/RandomKey.h"
#include "runtime/Reference.h"
#include "runtime/RunTrace.h"
#include "tests/runtime/HostWaits.h"
#include "tests/runtime/OwnMemory.h"
#include "tests/runtime/SmallPipeline.h"
#include "tests/runtime/SmallTraining.h"
#include "tests/support/Matchers.h"

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <map>
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

/// Three steps of the pipeline and of the unsplit model, each compared by `compareSteps`; then
/// both.
void trainBoth(const Training &how,
               llvm::function_ref<void(const TrainedStep &, const TrainedStep &)> compareSteps,
               llvm::function_ref<void(Reference &, Pipeline &)> compareModels) {
  std::string model;
  Pipeline pipeline = take(Pipeline::load(compileTrained(how, &model), runTrained(how)));
  ReferenceOptions plain;
  plain.microBatches = 4;
  plain.device = "cuda:0";
  Reference reference = take(Reference::load(model, plain));
  ASSERT_TRUE(succeeded(reference.train(*runTrained(how).training)));
  for (int step = 0; step < 3; ++step) {
    const TrainedStep expected = take(reference.step(trainingBatch()));
    compareSteps(expected, take(pipeline.step(trainingBatch())));
  }
  compareModels(reference, pipeline);
}

/// Schedules with whole and split backwards, and recomputation.
TEST_F(Cuda, TrainingHasTheBitsOfTheUnsplitModel) {
  for (Training how :
       {Training{"1f1b", {"cuda:0"}}, Training{"zb-h1", {"cuda:0"}},
        Training{"interleaved-1f1b", {"cuda:0"}, Tie::Mode::Transmit, RecomputeChoice::Always},
        Training{"zb-v", {"cuda:0"}, Tie::Mode::Transmit, RecomputeChoice::Always}}) {
    how.sharesWeight = false;
    trainBoth(
        how,
        [&](const TrainedStep &expected, const TrainedStep &actual) {
          EXPECT_EQ(expected.loss, actual.loss) << how.schedule;
          EXPECT_EQ(expected.gradientNorm, actual.gradientNorm) << how.schedule;
        },
        [&](Reference &reference, Pipeline &pipeline) {
          EXPECT_TRUE(
              compare(reference.gradients().ivalue(), pipeline.gradients().ivalue(), 0, 0).equal)
              << how.schedule;
        });
  }
}

/// Shared weights sent and copied. Their gradient is summed over stages and not over uses, in
/// another order: the last bits differ, and after an update those of all weights.
TEST_F(Cuda, ATrainingWithSharedWeightsIsThatOfTheUnsplitModelExceptForRounding) {
  for (const Training &how :
       {Training{"1f1b", {"cuda:0"}}, Training{"zb-h1", {"cuda:0"}, Tie::Mode::Replicate},
        Training{"zb-v", {"cuda:0"}, Tie::Mode::Replicate, RecomputeChoice::Always}})
    trainBoth(
        how,
        [&](const TrainedStep &expected, const TrainedStep &actual) {
          EXPECT_NEAR(expected.loss, actual.loss, 1e-6 * std::abs(expected.loss)) << how.schedule;
        },
        [&](Reference &reference, Pipeline &pipeline) {
          EXPECT_TRUE(
              compare(reference.gradients().ivalue(), pipeline.gradients().ivalue(), 1e-4, 1e-6)
                  .equal)
              << how.schedule;
        });
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

size_t countOf(HostCall::Kind kind, llvm::ArrayRef<HostCall> calls) {
  return static_cast<size_t>(
      llvm::count_if(calls, [&](const HostCall &call) { return call.kind == kind; }));
}

/// What the test below counts: none of these may go unseen.
TEST_F(Cuda, EveryKindOfWaitIsSeen) {
  const at::Tensor x = at::ones({4}, at::kCUDA);
  const c10::impl::VirtualGuardImpl guard(c10::DeviceType::CUDA);
  c10::Event event(c10::DeviceType::CUDA);
  event.record(guard.getStream(x.device()));
  auto count = [](HostCall::Kind kind, llvm::function_ref<void()> body) {
    return countOf(kind, hostCalls(body));
  };
  auto waits = [&](llvm::function_ref<void()> body) { return count(HostCall::Kind::Wait, body); };
  EXPECT_EQ(waits([&] { x.add(1).mul_(2); }), 0u);
  EXPECT_GE(waits([&] { x.sum().item(); }), 1u);
  EXPECT_GE(waits([&] { x.cpu(); }), 1u);
  EXPECT_GE(waits([&] { x.copy_(at::zeros({4})); }), 1u);
  EXPECT_GE(waits([&] { x.nonzero(); }), 1u);
  EXPECT_EQ(waits([&] { guard.synchronizeStream(guard.getStream(x.device())); }), 1u);
  EXPECT_EQ(waits([&] { event.synchronize(); }), 1u);
  EXPECT_EQ(waits([&] { guard.synchronizeDevice(x.device().index()); }), 1u);
  EXPECT_EQ(waits([&] { take(makeDevice("cuda:0"))->finish(); }), 1u);
  auto copies = [&](llvm::function_ref<void()> body) { return count(HostCall::Kind::Copy, body); };
  EXPECT_EQ(copies([&] { x.copy_(at::zeros({4}), /*non_blocking=*/true); }), 1u);
  EXPECT_EQ(copies([&] { x.copy_(x.add(1)); }), 0u);
}

/// What one rank does in a step: the ranks' threads are not the caller's.
std::map<std::thread::id, std::vector<HostCall>> callsOfRanks(llvm::ArrayRef<HostCall> calls) {
  std::map<std::thread::id, std::vector<HostCall>> ranks;
  for (const HostCall &call : calls)
    if (call.by != std::this_thread::get_id())
      ranks[call.by].push_back(call);
  return ranks;
}

/// A rank looks once whether all is finite, after its last backward, and waits for its streams
/// at the end. The caller waits before the ranks begin and after they have ended.
TEST_F(Cuda, NoRankWaitsBeforeItsOptimizer) {
  for (const Training &how :
       {Training{"1f1b", {"cuda:0"}},
        Training{"zb-h1", {"cuda:0"}, Tie::Mode::Replicate, RecomputeChoice::Always}}) {
    Pipeline pipeline = take(Pipeline::load(compileTrained(how), runTrained(how)));
    std::vector<c10::IValue> batch;
    for (const c10::IValue &value : trainingBatch())
      batch.emplace_back(value.toTensor().to(at::kCUDA));
    take(pipeline.step(batch));
    const std::vector<HostCall> calls = hostCalls([&] { take(pipeline.step(batch)); });
    const auto ranks = callsOfRanks(calls);
    ASSERT_EQ(ranks.size(), 4u) << how.schedule;
    for (const auto &[thread, ofRank] : ranks) {
      EXPECT_EQ(countOf(HostCall::Kind::Copy, ofRank), 0u) << how.schedule;
      const auto wait = llvm::find_if(
          ofRank, [](const HostCall &call) { return call.kind == HostCall::Kind::Wait; });
      const llvm::ArrayRef<HostCall> before(ofRank.data(), wait - ofRank.begin()),
          after = llvm::ArrayRef<HostCall>(ofRank).drop_front(before.size());
      // At least one in F and one in B, of four micro-batches.
      EXPECT_GE(countOf(HostCall::Kind::Product, before), 2u * 4) << how.schedule;
      EXPECT_EQ(countOf(HostCall::Kind::Product, after), 0u) << how.schedule;
      // For the flag, for the stage's three streams, and for the thread's own.
      EXPECT_EQ(countOf(HostCall::Kind::Wait, after), 5u) << how.schedule;
    }
    auto isRanks = [](const HostCall &call) { return call.by != std::this_thread::get_id(); };
    const auto first = llvm::find_if(calls, isRanks);
    const auto last = std::find_if(calls.rbegin(), calls.rend(), isRanks).base();
    EXPECT_TRUE(std::all_of(first, last, isRanks)) << how.schedule;
  }
}

/// The inputs of a batch that the caller has on the CPU are copied at each F that reads them, in
/// the stage's stream: CUDA may wait for it. No other copy comes in between.
TEST_F(Cuda, OnlyInputsAreCopiedFromTheCpu) {
  const Training how{"1f1b", {"cuda:0"}};
  Pipeline pipeline = take(Pipeline::load(compileTrained(how), runTrained(how)));
  take(pipeline.step(trainingBatch()));
  size_t copies = 0;
  for (const auto &[thread, ofRank] :
       callsOfRanks(hostCalls([&] { take(pipeline.step(trainingBatch())); })))
    copies += countOf(HostCall::Kind::Copy, ofRank);
  EXPECT_EQ(copies, 2u * 4); // two arguments, four micro-batches
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

/// As those of a GPU: what a fence knows of time is in its event.
class EventTimes : public OwnMemory {
public:
  Fence mark() override {
    return {0, std::make_shared<std::chrono::steady_clock::time_point>(
                   std::chrono::steady_clock::now())};
  }
  int64_t nsBetween(const Fence &from, const Fence &to) override {
    auto time = [](const Fence &fence) {
      return *static_cast<std::chrono::steady_clock::time_point *>(fence.event.get());
    };
    return (time(to) - time(from)) / std::chrono::nanoseconds(1);
  }
};

/// The ops of a step lie within it.
void expectOneTime(Pipeline &pipeline) {
  StepStats stats;
  take(pipeline.step(trainingBatch()));
  take(pipeline.step(trainingBatch(), &stats));
  const RunTrace trace = take(pipeline.trace());
  for (const std::vector<Timing::Interval> &rank : trace.ranks) {
    EXPECT_FALSE(rank.empty());
    for (const Timing::Interval &time : rank) {
      EXPECT_LE(0, time.start);
      EXPECT_LE(time.start, time.end);
      EXPECT_LE(time.end, stats.makespanNs);
    }
  }
}

TEST_F(Cuda, ATraceHasOneTime) {
  const Training how{"1f1b", {"cuda:0"}};
  Pipeline pipeline = take(Pipeline::load(compileTrained(how), runTrained(how)));
  expectOneTime(pipeline);
}

TEST(Device, ATraceOfEventsHasOneTime) {
  if (std::getenv("PIPEC_TEST_STREAMS"))
    GTEST_SKIP() << "the devices here are its own";
  const TestDevices devices([](const std::string &name) -> std::shared_ptr<Device> {
    return name == "events" ? std::make_shared<EventTimes>() : nullptr;
  });
  const Training how{"1f1b", {"events"}};
  Pipeline pipeline = take(Pipeline::load(compileTrained(how), runTrained(how)));
  expectOneTime(pipeline);
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
