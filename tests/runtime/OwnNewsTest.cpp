// How often the steps of a pipeline allocate memory besides LibTorch.
#include "compiler/Compiler.h"
#include "ir/autograd/GradLeaf.h"
#include "llvm/ADT/STLExtras.h"
#include "tests/runtime/SmallPipeline.h"
#include "tests/runtime/SmallTraining.h"
#include "tests/support/CountedNews.h"
#include "tests/support/Matchers.h"
#include "tests/support/TestModels.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

namespace pipec {
namespace {

/// Empty: calls are counted.
std::string whyNotCounted() {
  if (!std::getenv("PIPEC_TEST_NEWS"))
    return "runs in a process of its own: devices that note every operator allocate";
  return test::countsNews() ? "" : "sanitizers have their own operator new";
}

/// Of one `step`, after some that find the memory they need.
size_t newsOf(llvm::function_ref<void()> step) {
  for (int warmUp = 0; warmUp < 5; ++warmUp)
    step();
  std::vector<size_t> counts(9); // a thread that an earlier test left may allocate beside one
  for (size_t &count : counts) {
    const size_t before = test::ownNews();
    step();
    count = test::ownNews() - before;
  }
  std::nth_element(counts.begin(), counts.begin() + 4, counts.end());
  return counts[4];
}

/// Whether a message brings the gradient of a weight from another rank to the one that owns it.
bool sendsWeightGradient(const Plan &plan) {
  return llvm::any_of(plan.channels, [&](const Channel &channel) {
    return channel.kind == Channel::Kind::Weight &&
           llvm::any_of(channel.to, [&](const PortRef &to) {
             return plan.stages[to.stage].rank != plan.stages[channel.from.stage].rank;
           });
  });
}

struct NewsRun {
  std::string schedule;
  RecomputeChoice recompute = RecomputeChoice::Never;
  int64_t dynamic = 0;
};

class OwnNews : public testing::TestWithParam<NewsRun> {};

/// Lists, tapes, nodes and copies of state are used again, whatever the number of micro-batches.
TEST_P(OwnNews, AStepMakesNone) {
  if (const std::string why = whyNotCounted(); !why.empty())
    GTEST_SKIP() << why;
  const Training how{
      .schedule = GetParam().schedule, .devices = {}, .recompute = GetParam().recompute};
  const std::string artifact = compileTrained(how);
  for (int64_t microBatches : {4, 6}) {
    PipelineOptions options = runTrained(how);
    options.microBatches = microBatches;
    options.dynamic = GetParam().dynamic;
    Pipeline pipeline = take(Pipeline::load(artifact, options));
    EXPECT_EQ(sendsWeightGradient(pipeline.plan()), how.schedule != "zb-v"); // of w0
    const std::vector<c10::IValue> batch = trainingBatch();
    EXPECT_EQ(newsOf([&] { take(pipeline.step(batch)); }), 0u) << microBatches << " micro-batches";
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, OwnNews,
    testing::Values(NewsRun{"gpipe"}, NewsRun{"1f1b"}, NewsRun{"1f1b", RecomputeChoice::Always},
                    NewsRun{"zb-h1"}, NewsRun{"zb-v"}, NewsRun{"1f1b", RecomputeChoice::Never, 2}),
    [](const testing::TestParamInfo<NewsRun> &one) {
      std::string name = one.param.schedule +
                         (one.param.recompute == RecomputeChoice::Always ? "_recompute" : "") +
                         (one.param.dynamic ? "_dynamic" : "");
      for (char &letter : name)
        letter = letter == '-' ? '_' : letter;
      return name;
    });

TEST(OwnNewsOfInference, ACallMakesNone) {
  if (const std::string why = whyNotCounted(); !why.empty())
    GTEST_SKIP() << why;
  const test::SavedModule module{.name = "Infers",
                                 .parameters = {{"w0", at::ones({4, 4})}, {"w1", at::ones({4, 4})}},
                                 .source = R"(
def forward(self, x):
    return torch.relu(torch.matmul(torch.relu(torch.matmul(x, self.w0)), self.w1))
)"};
  const std::string model = scratchPath("infers.pt"), artifact = scratchPath("infers.pipe");
  std::ofstream(model, std::ios::binary) << bytesOf(module);
  CompileOptions compile;
  compile.mode = Mode::Infer;
  compile.stages = 2;
  compile.cost = AnalyticCosts();
  compile.inputs = "f32[8,4]";
  Compiler compiler = take(Compiler::load(model));
  ASSERT_TRUE(succeeded(compiler.compile(compile, artifact, /*force=*/true)));
  PipelineOptions options;
  options.threads = 1;
  for (int64_t microBatches : {1, 8}) {
    options.microBatches = microBatches;
    Pipeline pipeline = take(Pipeline::load(artifact, options));
    const std::vector<c10::IValue> batch = {at::ones({8, 4})};
    EXPECT_EQ(newsOf([&] { take(pipeline.infer(batch)); }), 0u) << microBatches << " micro-batches";
  }
}

/// Many tensors enter a stage, and few leave it.
TEST(OwnNewsOfDoor, AWideOneKeepsItsMemory) {
  if (const std::string why = whyNotCounted(); !why.empty())
    GTEST_SKIP() << why;
  TensorDoor door;
  LeafNodes nodes;
  std::vector<c10::IValue> came(100), entered;
  for (c10::IValue &value : came)
    value = at::ones({1}).set_requires_grad(true);
  std::vector<GradLeaf> leaves;
  std::vector<torch::autograd::Edge> edges;
  auto microBatch = [&] {
    for (const c10::IValue &value : came)
      entered.push_back(door.enterAll(value, leaves, nodes));
    door.beginLeaving();
    EXPECT_TRUE(door.leaveAll(entered.front(), edges).toTensor().is_same(came.front().toTensor()));
    door.clear();
    entered.clear();
    edges.clear();
    for (GradLeaf &leaf : leaves)
      nodes.giveBack(std::move(leaf.edge.function));
    leaves.clear();
  };
  EXPECT_EQ(newsOf(microBatch), 0u);
}

} // namespace
} // namespace pipec
