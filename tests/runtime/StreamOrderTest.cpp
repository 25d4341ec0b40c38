// The order of work on streams: inferences and trainings on devices whose streams only their fences
// put into an order, and faults of such a device, each of which must be found.
#include "ir/values/MapTensors.h"
#include "runtime/Pipeline.h"
#include "runtime/Reference.h"
#include "tests/runtime/SmallPipeline.h"
#include "tests/runtime/SmallTraining.h"
#include "tests/support/Matchers.h"
#include "tests/support/streams/StreamDevice.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>

#include <cstdlib>
#include <functional>
#include <limits>

namespace pipec {
namespace {

using test::StreamDevice;
using test::StreamFault;
using test::StreamMonitor;

/// The CTest entry pipec-runtime-tests-streams sets the variable: every pipeline of every test then
/// runs on such devices.
const bool kOpened = [] {
  test::openStreamDevices(/*cpuToo=*/std::getenv("PIPEC_TEST_STREAMS") != nullptr);
  return true;
}();

// --- the monitor itself -------------------------------------------------------------------------

class Streams : public testing::Test {
protected:
  void SetUp() override {
    first = std::make_unique<StreamDevice>(0);
    second = std::make_unique<StreamDevice>(1);
    for (int stream = 0; stream < 2; ++stream) {
      first->addStream();
      second->addStream();
    }
    monitor.takeProblem();
  }
  void TearDown() override { monitor.takeProblem(); }

  at::Tensor makeOn(StreamDevice &device, size_t stream) {
    auto scope = device.enter(stream);
    return at::ones({64, 64}).add(1);
  }

  StreamMonitor &monitor = StreamMonitor::get();
  std::unique_ptr<StreamDevice> first, second;
};

TEST_F(Streams, AReadMustWaitForTheWrite) {
  at::Tensor x = makeOn(*first, 0);
  {
    auto scope = first->enter(1);
    x.mul(2);
  }
  const std::string problem = monitor.takeProblem();
  EXPECT_NE(problem.find("aten::mul on stream"), std::string::npos) << problem;
  EXPECT_NE(problem.find("reads what aten::add on stream"), std::string::npos) << problem;
}

TEST_F(Streams, AFenceIsEnough) {
  at::Tensor x;
  Fence ready;
  {
    auto scope = first->enter(0);
    x = at::ones({64, 64}).add(1);
    ready = first->mark();
  }
  auto scope = first->enter(1);
  first->waitFor(ready);
  x.mul(2).add_(x);
  EXPECT_EQ(monitor.takeProblem(), "");
}

TEST_F(Streams, AFenceCoversWhatCameBeforeItOnly) {
  at::Tensor x;
  Fence ready;
  {
    auto scope = first->enter(0);
    x = at::ones({64, 64});
    ready = first->mark();
    x.add_(1);
  }
  auto scope = first->enter(1);
  first->waitFor(ready);
  x.mul(2);
  EXPECT_NE(monitor.takeProblem().find("reads what aten::add_"), std::string::npos);
}

TEST_F(Streams, AWriteMustWaitForReads) {
  at::Tensor x;
  Fence made;
  {
    auto scope = first->enter(0);
    x = at::ones({64, 64}).add(1);
    made = first->mark();
  }
  {
    auto scope = first->enter(1);
    first->waitFor(made);
    x.mul(2);
  }
  auto scope = first->enter(0);
  x.zero_();
  EXPECT_NE(monitor.takeProblem().find("overwrites what aten::mul on stream"), std::string::npos);
}

TEST_F(Streams, ViewsAreTheMemoryTheyLookAt) {
  at::Tensor x = makeOn(*first, 0).t().select(0, 3);
  auto scope = first->enter(1);
  x.unsqueeze(0); // looks at nothing
  EXPECT_EQ(monitor.takeProblem(), "");
  x.sum();
  EXPECT_NE(monitor.takeProblem().find("reads what aten::add"), std::string::npos);
}

/// The allocator gives freed memory to the next tensor of the stream it came from.
TEST_F(Streams, FreedMemoryMayStillBeRead) {
  for (bool held : {false, true}) {
    at::Tensor x;
    Fence made;
    {
      auto scope = first->enter(0);
      x = at::ones({64, 64}).add(1);
      made = first->mark();
    }
    {
      auto scope = first->enter(1);
      first->waitFor(made);
      if (held)
        first->bring(x, *first);
      x.mul(2);
    }
    x = at::Tensor();
    makeOn(*first, 0);
    const std::string problem = monitor.takeProblem();
    EXPECT_EQ(problem.find("may get memory that aten::mul on stream") == std::string::npos, held)
        << problem;
    first->finish();
  }
}

TEST_F(Streams, DevicesHaveTheirOwnMemory) {
  at::Tensor x = makeOn(*first, 0);
  first->finish();
  auto scope = second->enter(0);
  makeOn(*second, 0).add_(x);
  EXPECT_NE(monitor.takeProblem().find("uses memory of device 0"), std::string::npos);
  makeOn(*second, 0).add_(second->bring(x, *first).toTensor());
  EXPECT_EQ(monitor.takeProblem(), "");
}

TEST_F(Streams, TheHostWaitsWhereItLooksAtNumbers) {
  at::Tensor x = makeOn(*first, 0);
  auto scope = first->enter(0);
  const int64_t before = monitor.hostWaits();
  x.sum();
  EXPECT_EQ(monitor.hostWaits(), before);
  x.sum().item<double>();
  x.nonzero();
  EXPECT_EQ(monitor.hostWaits(), before + 2);
  EXPECT_NE(monitor.lastHostWait().find("aten::nonzero on stream"), std::string::npos);
}

TEST_F(Streams, AFinishedDeviceThrowsWhatWasFound) {
  at::Tensor x = makeOn(*first, 0);
  {
    auto scope = first->enter(1);
    x.mul(2);
  }
  EXPECT_ANY_THROW(first->finish());
  EXPECT_NO_THROW(first->finish());
}

// --- pipelines ----------------------------------------------------------------------------------

std::vector<c10::IValue> streamBatch(int64_t samples) {
  return {at::arange(samples * 8, at::kFloat).view({samples, 8}) / 11, 3};
}

llvm::Expected<Pipeline> loadOnStreams(size_t ranks, std::vector<std::string> devices) {
  SmallModel model;
  model.ranks = ranks;
  const std::string directory = scratchPath("small.pipe");
  writeSmallArtifact(directory, model);
  PipelineOptions options;
  options.microBatches = 4;
  options.threads = 1;
  options.devices = std::move(devices);
  return Pipeline::load(directory, options);
}

/// Calls as many times as memory of an earlier call could be used again; the first error.
llvm::Error inferSmall(size_t ranks, std::vector<std::string> devices) {
  llvm::Expected<Pipeline> pipeline = loadOnStreams(ranks, std::move(devices));
  if (!pipeline)
    return pipeline.takeError();
  c10::IValue x = streamBatch(8)[0];
  for (int call = 0; call < 4; ++call) {
    llvm::Expected<c10::IValue> result = pipeline->infer({x, 3});
    if (!result)
      return result.takeError();
    x = result->toGenericDict().at("rest").toTupleRef().elements()[0]; // on the device
  }
  return llvm::Error::success();
}

class InOrder : public testing::TestWithParam<Training> {};

TEST_P(InOrder, TrainsInOrderAndWithTheBitsOfTheCpu) {
  Training onCpu = GetParam();
  onCpu.devices = {};
  c10::IValue expected, actual;
  ASSERT_TRUE(succeeded(train(onCpu, &expected)));
  ASSERT_TRUE(succeeded(train(GetParam(), &actual)));
  EXPECT_TRUE(sameBits(expected, actual));
}

const std::vector<std::string> kOne = {"test:0"}, kTwo = {"test:0", "test:1"},
                               kFour = {"test:0", "test:1", "test:0", "test:2"};
constexpr auto kTransmit = Tie::Mode::Transmit, kReplicate = Tie::Mode::Replicate;
constexpr auto kNever = RecomputeChoice::Never, kAlways = RecomputeChoice::Always;

INSTANTIATE_TEST_SUITE_P(
    All, InOrder,
    testing::Values(Training{"1f1b", kOne, kTransmit}, Training{"1f1b", kFour, kReplicate},
                    Training{"zb-h1", kOne, kReplicate, kAlways},
                    Training{"zb-h1", kFour, kTransmit, kNever, "adagrad"},
                    Training{"interleaved-1f1b", kOne, kTransmit},
                    Training{"interleaved-1f1b", kTwo, kTransmit, kAlways,
                             "sgd,lr=0.1,momentum=0.9"},
                    Training{"interleaved-1f1b", kTwo, kReplicate},
                    Training{"zb-v", kTwo, kTransmit}, Training{"zb-v", kOne, kReplicate, kAlways},
                    Training{"dualpipev", kTwo, kReplicate, kNever, "rmsprop,momentum=0.5"},
                    Training{"interleaved-1f1b", kOne, kTransmit, kAlways, "adamw,lr=0.01",
                             /*replicas=*/2, /*writesState=*/false},
                    Training{"zb-v", kFour, kReplicate, kNever, "sgd,lr=0.1", /*replicas=*/2,
                             /*writesState=*/false}),
    [](const auto &instance) {
      const Training &how = instance.param;
      std::string name = fmt::format("{}_{}_{}_{}", how.schedule, how.devices.size(),
                                     how.tied == kTransmit ? "transmit" : "replicate",
                                     how.recompute == kAlways ? "recompute" : "keep");
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

TEST(StreamOrder, InferencesAreInOrder) {
  for (size_t ranks : {1, 2, 3}) {
    EXPECT_TRUE(succeeded(inferSmall(ranks, {"test:0"}))) << ranks;
    std::vector<std::string> several = {"test:0", "test:1", "test:0"};
    several.resize(ranks);
    EXPECT_TRUE(succeeded(inferSmall(ranks, several))) << ranks;
  }
}

/// A copy waits for its source only: nothing is computed on the stream that it arrives on.
TEST(StreamOrder, CopiesBetweenDevicesDoNotWaitForStages) {
  const int64_t before = StreamMonitor::get().arrivalsBehindOperators();
  ASSERT_TRUE(succeeded(inferSmall(3, {"test:0", "test:1", "test:2"})));
  EXPECT_EQ(StreamMonitor::get().arrivalsBehindOperators(), before);
}

/// Whether all is finite is looked at once by each rank, when its optimizer begins.
TEST(StreamOrder, TheHostWaitsOncePerRankAndStep) {
  const Training how{"1f1b", kOne};
  Pipeline pipeline = take(Pipeline::load(compileTrained(how), runTrained(how)));
  ASSERT_TRUE(succeeded(pipeline.step(trainingBatch())));
  const int64_t before = StreamMonitor::get().hostWaits();
  ASSERT_TRUE(succeeded(pipeline.step(trainingBatch())));
  EXPECT_EQ(StreamMonitor::get().hostWaits() - before, 4) << StreamMonitor::get().lastHostWait();
}

/// The unsplit model has one stream. The first step tries the batch in parts, too.
TEST(StreamOrder, TheUnsplitModelTrainsInOrder) {
  const Training how{.schedule = "1f1b", .devices = {}};
  std::string model;
  compileTrained(how, &model);
  std::vector<c10::IValue> states;
  for (const char *device : {"cpu", "test:0"}) {
    ReferenceOptions options;
    options.microBatches = 4;
    options.threads = 1;
    options.device = device;
    Reference reference = take(Reference::load(model, options));
    ASSERT_TRUE(succeeded(reference.train(*runTrained(how).training)));
    for (int step = 0; step < 3; ++step)
      take(reference.step(trainingBatch()));
    states.push_back(reference.state().ivalue());
  }
  EXPECT_TRUE(sameBits(states[0], states[1]));
}

/// On a device the flag is found late: the message and the weights are the same as on the CPU.
TEST(StreamOrder, NotFiniteIsFoundBeforeWeightsChange) {
  for (const std::vector<std::string> &devices : {std::vector<std::string>{"cpu"}, kOne}) {
    const Training how{"interleaved-1f1b", devices};
    Pipeline pipeline = take(Pipeline::load(compileTrained(how), runTrained(how)));
    ASSERT_TRUE(succeeded(pipeline.step(trainingBatch())));
    const c10::IValue before = mapTensors(pipeline.state().ivalue(),
                                          [](const at::Tensor &tensor) { return tensor.clone(); });
    std::vector<c10::IValue> bad = trainingBatch();
    bad[1].toTensor().select(0, 4).fill_(std::numeric_limits<float>::infinity());
    EXPECT_TRUE(failedWith(pipeline.step(bad), ExitCode::NotFinite,
                           "micro-batch 1: expected a finite loss, got inf"));
    EXPECT_TRUE(sameBits(before, pipeline.state().ivalue()));
    EXPECT_TRUE(succeeded(pipeline.step(trainingBatch())));
  }
}

// --- planted faults -----------------------------------------------------------------------------

struct Planted {
  const char *name;
  StreamFault fault;
  std::function<llvm::Error()> run;
  const char *found; // a part of the message
  /// The same where another thread is first to see the fault.
  const char *orFound = nullptr;
};

class PlantedStreamFault : public testing::TestWithParam<Planted> {
protected:
  void TearDown() override {
    StreamDevice::fault = StreamFault::None;
    StreamMonitor::get().takeProblem();
  }
};

TEST_P(PlantedStreamFault, IsFound) {
  StreamDevice::fault = GetParam().fault;
  llvm::Error error = GetParam().run();
  ASSERT_TRUE(static_cast<bool>(error)) << "expected the fault to be found";
  const std::string message = describe(std::move(error)).message;
  EXPECT_NE(message.find("order of streams: "), std::string::npos) << message;
  const bool isNamed =
      message.find(GetParam().found) != std::string::npos ||
      (GetParam().orFound && message.find(GetParam().orFound) != std::string::npos);
  EXPECT_TRUE(isNamed) << message;
}

llvm::Error infer2() { return inferSmall(2, kOne); }
llvm::Error infer3() { return inferSmall(3, {"test:0", "test:1", "test:0"}); }
llvm::Error train2() { return train({"interleaved-1f1b", kOne}); }
llvm::Error train4() { return train({"1f1b", kFour, kReplicate}); }

INSTANTIATE_TEST_SUITE_P(
    All, PlantedStreamFault,
    testing::Values(
        Planted{"NoWaitInAnInference", StreamFault::NoWait, infer2, "does not wait for it"},
        Planted{"NoWaitInATraining", StreamFault::NoWait, train2, "does not wait for it"},
        Planted{"SendBeforeItsMark", StreamFault::EarlyFence, infer3, "does not wait for it"},
        Planted{"FenceOfAnotherStream", StreamFault::WrongFence, infer2, "does not wait for it"},
        Planted{"WorkOnAnotherStream", StreamFault::WrongStream, train4, "default stream"},
        Planted{"FreedInputOfAnInference", StreamFault::NoHold, infer2, "may get memory"},
        Planted{"FreedGradient", StreamFault::NoHold, train2, "may get memory"},
        Planted{"NoPeerCopy", StreamFault::NoPeerCopy, infer3, "reads what",
                "uses memory of device"},
        Planted{"PeerCopyTooEarly", StreamFault::PeerCopyEarly, infer3, "a copy to another device"},
        Planted{"FreedSourceOfAPeerCopy", StreamFault::NoPeerHold, train4, "may get memory"},
        Planted{"TheFirstWaitOfAStream", StreamFault::ForgottenFirst, infer2,
                "does not wait for it"},
        Planted{"InputOnAnotherStream", StreamFault::InputElsewhere, infer2,
                "the copy of an input"},
        Planted{"NoFinish", StreamFault::NoFinish, infer2, "does not wait for it"}),
    [](const auto &instance) { return instance.param.name; });

} // namespace
} // namespace pipec
