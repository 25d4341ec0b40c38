// A call that fails leaves no trace: what follows has the bits that it would have had without it.
#include "ir/values/CompareValues.h"
#include "ir/values/MapTensors.h"
#include "runtime/Pipeline.h"
#include "runtime/PipelineCore.h"
#include "runtime/Reference.h"
#include "runtime/StateCopy.h"
#include "tests/runtime/SmallPipeline.h"
#include "tests/support/Matchers.h"
#include "tests/support/TestModels.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <chrono>
#include <fstream>
#include <stdexcept>
#include <thread>

namespace pipec {
namespace {

using Inputs = std::vector<c10::IValue>;

Inputs good(int64_t samples, int call = 0) {
  return {at::arange(samples * 8, at::kFloat).view({samples, 8}) / (11 + call), 3};
}

/// One sample of the batch makes stage 1 fail, in the micro-batch that has it.
Inputs bad(int64_t samples, int64_t sample) {
  at::Tensor x = at::ones({samples, 8});
  x.select(0, sample).fill_(1e6);
  return {x, 3};
}

llvm::Expected<Pipeline> loadSmall(const std::string &name, const SmallModel &model,
                                   int64_t microBatches) {
  std::string directory = scratchPath(name);
  writeSmallArtifact(directory, model);
  PipelineOptions options;
  options.microBatches = microBatches;
  options.threads = 1;
  options.seed = 5;
  return Pipeline::load(directory, options);
}

struct Kind {
  size_t ranks;
  bool inPlace;
};
class FailedCalls : public testing::TestWithParam<Kind> {
protected:
  SmallModel model() const {
    SmallModel model;
    model.ranks = GetParam().ranks;
    model.countInPlace = GetParam().inPlace;
    model.failInStage1 = true;
    return model;
  }
};

/// Fails in the first, a middle and the last of four micro-batches; the last stage has then counted
/// none, some or most of them.
TEST_P(FailedCalls, LeaveNoTrace) {
  auto tried = loadSmall("tried.pipe", model(), 4), fresh = loadSmall("fresh.pipe", model(), 4);
  ASSERT_TRUE(succeeded(tried));
  ASSERT_TRUE(succeeded(fresh));
  for (int call = 0; call < 3; ++call) {
    for (int64_t sample : {0, 3, 7})
      EXPECT_TRUE(
          failedWith(tried->infer(bad(8, sample)), ExitCode::Usage,
                     fmt::format("stage 1 (layers.0..layers.3), micro-batch {}: ", sample / 2)));
    auto expected = fresh->infer(good(8, call)), actual = tried->infer(good(8, call));
    ASSERT_TRUE(succeeded(expected));
    ASSERT_TRUE(succeeded(actual));
    EXPECT_TRUE(sameBits(*expected, *actual))
        << "call " << call << ": " << compare(*expected, *actual, 0, 0).firstDifference;
  }
}

INSTANTIATE_TEST_SUITE_P(All, FailedCalls,
                         testing::Values(Kind{3, false}, Kind{3, true}, Kind{2, true},
                                         Kind{1, false}, Kind{1, true}),
                         [](const auto &test) {
                           return fmt::format("ranks{}{}", test.param.ranks,
                                              test.param.inPlace ? "InPlace" : "Replaced");
                         });

TEST(FailedCall, AThousandCallsInTurn) {
  SmallModel model;
  model.countInPlace = model.failInStage1 = true;
  auto tried = loadSmall("tried.pipe", model, 2), fresh = loadSmall("fresh.pipe", model, 2);
  ASSERT_TRUE(succeeded(tried));
  ASSERT_TRUE(succeeded(fresh));
  for (int call = 0; call < 500; ++call) {
    ASSERT_FALSE(bool(succeeded(tried->infer(bad(4, call % 4)))));
    auto expected = fresh->infer(good(4, call)), actual = tried->infer(good(4, call));
    ASSERT_TRUE(succeeded(actual));
    ASSERT_TRUE(sameBits(*expected, *actual)) << call;
  }
}

int64_t countedOf(const c10::IValue &result) {
  at::Tensor last;
  forEachTensor(result.toGenericDict().at("rest"), [&](const at::Tensor &t) { last = t; });
  return last.item<int64_t>();
}

TEST(FailedCall, AWrongShapeInsideAStage) {
  SmallModel model;
  model.editPlan = [](Plan &plan) { plan.signature.inputs[0].tensor.shape[1] = {0, 8, true}; };
  auto pipeline = loadSmall("model.pipe", model, 2);
  ASSERT_TRUE(succeeded(pipeline));
  EXPECT_TRUE(
      failedWith(pipeline->infer({at::ones({4, 9}), 3}), ExitCode::Usage, "stage 0 (embed)"));
  auto result = pipeline->infer(good(4));
  ASSERT_TRUE(succeeded(result));
  EXPECT_EQ(countedOf(*result), 2);
}

TEST(FailedCall, MemoryThatIsNotThere) {
  SmallModel model;
  model.startOfStage1 = "    if scale > 1000:\n"
                        "        e = e + torch.empty([scale * 1000000000000])[0]\n";
  auto pipeline = loadSmall("model.pipe", model, 2);
  ASSERT_TRUE(succeeded(pipeline));
  EXPECT_TRUE(failedWith(pipeline->infer({at::ones({4, 8}), 2000}), ExitCode::OutOfMemory,
                         "stage 1 (layers.0..layers.3), micro-batch "));
  EXPECT_TRUE(succeeded(pipeline->infer(good(4))));
}

/// The step is done and its results do not fit together: the call has failed all the same.
TEST(FailedCall, ResultsThatDoNotFitTogether) {
  SmallModel model;
  model.editPlan = [](Plan &plan) {
    plan.signature.leaves[2].merge = {MergeRule::Kind::Concat, 3}; // a vector has no dimension 3
  };
  auto pipeline = loadSmall("model.pipe", model, 0);
  ASSERT_TRUE(succeeded(pipeline));
  for (int call = 0; call < 3; ++call)
    EXPECT_FALSE(bool(succeeded(pipeline->infer(good(4)))));
  auto result = pipeline->infer(good(1)); // one micro-batch: nothing to merge
  ASSERT_TRUE(succeeded(result));
  EXPECT_EQ(countedOf(*result), 1);
}

/// Nothing of a failed call is kept, neither its arguments nor its values on the way.
TEST(FailedCall, ItsArgumentsAreReleased) {
  SmallModel model;
  model.failInStage1 = true;
  auto pipeline = loadSmall("model.pipe", model, 4);
  ASSERT_TRUE(succeeded(pipeline));
  Inputs inputs = bad(8, 5);
  ASSERT_FALSE(bool(succeeded(pipeline->infer(inputs))));
  EXPECT_EQ(inputs[0].toTensor().storage().use_count(), 1u);
}

/// Stage 0 loops for as long as the caller's tensor holds a 7.
TEST(FailedCall, AStuckOperatorMakesThePipelineUnusableUntilItReturns) {
  SmallModel model;
  // What the loop makes is used: a loop without effects is removed.
  model.startOfStage0 = "    kept = x\n    while bool(x[0, 0] == 7.0):\n"
                        "        kept = x.view_as(x)\n    x = kept\n";
  model.failInStage1 = true;
  auto pipeline = loadSmall("model.pipe", model, 2), fresh = loadSmall("fresh.pipe", model, 2);
  ASSERT_TRUE(succeeded(pipeline));
  ASSERT_TRUE(succeeded(fresh));
  Inputs inputs = bad(4, 0); // fails in micro-batch 0
  at::Tensor flag = inputs[0].toTensor()[2][0];
  flag.fill_(7); // holds micro-batch 1
  // Rank 1 may fail before rank 0 begins with micro-batch 1: then nothing is stuck, and the next
  // call is another chance.
  auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  std::string message;
  while (!llvm::StringRef(message).contains("is still inside") &&
         std::chrono::steady_clock::now() < deadline) {
    auto failed = pipeline->infer(inputs);
    ASSERT_FALSE(bool(failed));
    ErrorText text = describe(failed.takeError());
    EXPECT_EQ(text.code, ExitCode::Usage);
    message = text.message;
  }
  EXPECT_TRUE(llvm::StringRef(message).contains(
      "; rank 0 is still inside an operator of a call that failed; the pipeline accepts no call "
      "until it returns"))
      << message;
  EXPECT_TRUE(failedWith(pipeline->infer(good(4)), ExitCode::Other, "rank 0 is still inside"));
  flag.fill_(1);
  deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  auto result = pipeline->infer(good(4));
  while (!result && std::chrono::steady_clock::now() < deadline) {
    llvm::consumeError(result.takeError());
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    result = pipeline->infer(good(4));
  }
  auto expected = fresh->infer(good(4));
  ASSERT_TRUE(succeeded(result));
  ASSERT_TRUE(succeeded(expected));
  EXPECT_TRUE(sameBits(*expected, *result));
}

/// As a GPU after a failed assertion in a kernel: whatever is asked of it fails.
class LostDevice : public Device {
public:
  LostDevice() : Device(c10::Device(c10::DeviceType::CPU)) {}
  size_t addStream() override { return 0; }
  std::unique_ptr<Scope> enter(size_t) override { return nullptr; }
  Fence mark() override { return {}; }
  void waitFor(const Fence &) override {}
  int64_t nsBetween(const Fence &, const Fence &) override { return 0; }
  void finish() override { throw std::runtime_error("CUDA error: device-side assert triggered"); }
  c10::IValue bring(c10::IValue value, const Device &) override { return value; }
  c10::IValue bringInput(c10::IValue value) override { return value; }
  int64_t peakMemoryBytes() override { return 0; }
};

TEST(FailedCall, ADeviceThatCannotFinishItsWorkIsLost) {
  PipelineCore core;
  core.devices.push_back(std::make_shared<LostDevice>());
  core.restoreRank(0);
  ASSERT_TRUE(core.lost);
  EXPECT_EQ(core.lost->code, ExitCode::Other);
  EXPECT_EQ(core.lost->message, "device cpu: CUDA error: device-side assert triggered");
}

TEST(StateCopy, PutsBackWhatWasInTheVeryMemory) {
  at::Tensor base = at::arange(12, at::kFloat), view = base.view({3, 4}).select(1, 2);
  c10::List<at::Tensor> list({at::ones({2})});
  c10::impl::GenericList numbers(c10::IntType::get());
  numbers.push_back(7);
  const void *memory = base.const_data_ptr();
  StateCopy copy({base, view, list, c10::IValue(numbers), 5}, true);
  base.mul_(3);
  base.unsqueeze_(0);
  list.get(0).zero_();
  list.push_back(at::ones({1}));
  numbers.push_back(8);
  std::vector<c10::IValue> back = copy.restore();
  EXPECT_TRUE(at::equal(base, at::arange(12, at::kFloat)));
  EXPECT_EQ(base.const_data_ptr(), memory);
  EXPECT_TRUE(view.is_alias_of(back[0].toTensor()));
  EXPECT_TRUE(back[1].toTensor().is_same(view));
  ASSERT_EQ(back[2].toTensorVector().size(), 1u);
  EXPECT_TRUE(at::equal(back[2].toTensorVector()[0], at::ones({2})));
  EXPECT_EQ(back[3].toListRef().size(), 1u);
  EXPECT_EQ(back[4].toInt(), 5);
}

TEST(StateCopy, PutsBackMemoryThatGrew) {
  at::Tensor cache = at::ones({2, 3});
  StateCopy copy({cache}, true);
  cache.resize_({50, 3}).zero_();
  copy.restore();
  EXPECT_TRUE(at::equal(cache, at::ones({2, 3})));
}

/// Nothing of the last call's copy stays in the next one.
TEST(StateCopy, ServesAgainAfterForget) {
  at::Tensor state = at::ones({2});
  StateCopy copy;
  EXPECT_FALSE(copy.isTaken());
  for (double value : {3.0, 5.0}) {
    state.fill_(value);
    copy.take({c10::IValue(state)}, true);
    EXPECT_TRUE(copy.isTaken());
    state.zero_();
    EXPECT_EQ(copy.restore().size(), 1u);
    EXPECT_EQ(state.sum().item<double>(), 2 * value);
    copy.forget();
    EXPECT_FALSE(copy.isTaken());
  }
}

TEST(Reference, AFailedCallLeavesNoTrace) {
  std::string path = scratchPath("model.pt");
  test::SavedModule module{.name = "Counts", .buffers = {{"count", at::zeros({1})}}, .source = R"(
def forward(self, x):
    self.count.add_(x.size(0))
    assert int(x.max()) < 5, 'too large'
    return torch.dropout(x + self.count, 0.5, True)
)"};
  std::ofstream(path, std::ios::binary) << bytesOf(module);
  ReferenceOptions options;
  options.microBatches = 2;
  options.threads = 1;
  auto tried = Reference::load(path, options), fresh = Reference::load(path, options);
  ASSERT_TRUE(succeeded(tried));
  ASSERT_TRUE(succeeded(fresh));
  at::Tensor x = at::ones({4, 3}), wrong = at::ones({4, 3});
  wrong[3].fill_(9);
  for (int call = 0; call < 3; ++call) {
    auto expected = fresh->infer({x}), actual = tried->infer({x});
    ASSERT_TRUE(succeeded(expected));
    ASSERT_TRUE(succeeded(actual));
    EXPECT_TRUE(sameBits(*expected, *actual)) << call;
    EXPECT_FALSE(bool(succeeded(tried->infer({wrong}))));
  }
}

TEST(Reference, AFailedCallRestoresParametersThatTheModelWrote) {
  // LibTorch drops a write into the tensors of a list that nothing reads afterwards.
  for (const char *write : {"self.w.mul_(2)", "self.w.data.mul_(2)", "self.w.data[1:].mul_(2)",
                            "l = [self.w]\n    torch._foreach_mul_(l, 2)\n    x = x + 0 * l[0]",
                            "l = [x.clone()]\n    l.append(self.w)\n    torch._foreach_mul_(l, 2)\n"
                            "    x = x + 0 * l[1]"}) {
    std::string path = scratchPath("model.pt");
    test::SavedModule module{.name = "Moves",
                             .parameters = {{"w", at::ones({3})}},
                             .source = fmt::format(R"(
def forward(self, x):
    {}
    assert int(x.max()) < 5, 'too large'
    return x * self.w
)",
                                                   write)};
    std::ofstream(path, std::ios::binary) << bytesOf(module);
    ReferenceOptions options;
    options.microBatches = 2;
    options.threads = 1;
    auto reference = Reference::load(path, options);
    ASSERT_TRUE(succeeded(reference));
    at::Tensor x = at::ones({4, 3}), wrong = at::ones({4, 3});
    wrong[3].fill_(9);
    ASSERT_TRUE(succeeded(reference->infer({x})));
    EXPECT_FALSE(bool(succeeded(reference->infer({wrong}))));
    auto result = reference->infer({x});
    ASSERT_TRUE(succeeded(result));
    EXPECT_EQ(result->toTensor()[3][2].item<float>(), 16) << write; // the fourth that counts
  }
}

} // namespace
} // namespace pipec
