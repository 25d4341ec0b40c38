// Forms of the same call, pipelines beside each other, and calls of a pipeline that another thread
// is in or that was moved from.
#include "runtime/Pipeline.h"
#include "runtime/RunTrace.h"
#include "tests/runtime/SmallPipeline.h"
#include "tests/runtime/SmallTraining.h"
#include "tests/support/Matchers.h"

#include <atomic>
#include <future>
#include <thread>

namespace pipec {
namespace {

using Batches = std::vector<std::vector<c10::IValue>>;

/// Is inside step() until `go` is ready.
class Waits : public ParameterOptimizer {
public:
  Waits(std::atomic<bool> &entered, std::shared_future<void> go)
      : entered_(entered), go_(std::move(go)) {}
  void step(const ValueTree &, const ValueTree &, double) override {
    entered_ = true;
    go_.wait();
  }

private:
  std::atomic<bool> &entered_;
  std::shared_future<void> go_;
};

/// Every call that can fail does, in this way.
void expectAllFail(Pipeline &pipeline, const std::string &text) {
  const std::string directory = scratchPath("use.checkpoints");
  EXPECT_TRUE(failedWith(pipeline.step(trainingBatch()), ExitCode::Usage, text));
  EXPECT_TRUE(failedWith(pipeline.stepOnBatches(Batches{trainingBatch(), trainingBatch()}),
                         ExitCode::Usage, text));
  EXPECT_TRUE(
      failedWith(pipeline.stepOnMicroBatches(Batches{trainingBatch()}), ExitCode::Usage, text));
  EXPECT_TRUE(failedWith(pipeline.infer(trainingBatch()), ExitCode::Usage, text));
  EXPECT_TRUE(failedWith(pipeline.evaluate(trainingBatch()), ExitCode::Usage, text));
  EXPECT_TRUE(failedWith(pipeline.setLearningRates("constant", 1), ExitCode::Usage, text));
  EXPECT_TRUE(failedWith(pipeline.trace(), ExitCode::Usage, text));
  EXPECT_TRUE(failedWith(pipeline.saveCheckpoint(directory), ExitCode::Usage, text));
  EXPECT_TRUE(failedWith(pipeline.resume(directory), ExitCode::Usage, text));
}

TEST(PipelineUse, AnotherThreadIsInACall) {
  const Training how{.schedule = "1f1b", .devices = {}};
  std::atomic<bool> entered = false;
  std::promise<void> go;
  const std::shared_future<void> ready = go.get_future().share();
  PipelineOptions options = runTrained(how);
  options.training->optimizer.clear();
  options.training->makeOptimizer = [&](const std::string &) {
    return std::make_unique<Waits>(entered, ready);
  };
  Pipeline pipeline = take(Pipeline::load(compileTrained(how), options));
  std::future<bool> first = std::async(std::launch::async, [&] {
    return static_cast<bool>(succeeded(pipeline.step(trainingBatch())));
  });
  while (!entered && first.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready)
    ;
  EXPECT_TRUE(entered);
  expectAllFail(pipeline, "the pipeline is in use by another thread");
  go.set_value();
  EXPECT_TRUE(first.get());
  EXPECT_TRUE(succeeded(pipeline.step(trainingBatch()))) << "after the other call";
}

/// State and gradients after a step.
c10::IValue after(llvm::function_ref<llvm::Expected<TrainedStep>(Pipeline &)> step,
                  const Training &how, const std::string &artifact) {
  Pipeline pipeline = take(Pipeline::load(artifact, runTrained(how)));
  take(step(pipeline));
  return c10::ivalue::Tuple::create({pipeline.state().ivalue(), pipeline.gradients().ivalue()});
}

/// A batch as it is, cut by the caller, and both as trees of values; two batches as trees.
TEST(PipelineUse, FormsOfAStepAreTheSame) {
  const Training how{.schedule = "1f1b", .devices = {}};
  const std::string artifact = compileTrained(how);
  Batches cut(4);
  std::vector<ValueTree> cutTrees;
  for (size_t k = 0; k < cut.size(); ++k) {
    for (const c10::IValue &whole : trainingBatch())
      cut[k].push_back(whole.toTensor().narrow(0, static_cast<int64_t>(3 * k), 3));
    cutTrees.push_back(ValueTree::of(c10::ivalue::Tuple::create(cut[k])));
  }
  const ValueTree tree = ValueTree::of(c10::ivalue::Tuple::create(trainingBatch()));
  const auto whole = after([&](Pipeline &p) { return p.step(trainingBatch()); }, how, artifact);
  EXPECT_TRUE(sameBits(whole, after([&](Pipeline &p) { return p.step(tree); }, how, artifact)));
  EXPECT_TRUE(sameBits(
      whole, after([&](Pipeline &p) { return p.stepOnMicroBatches(cut); }, how, artifact)));
  EXPECT_TRUE(sameBits(
      whole, after([&](Pipeline &p) { return p.stepOnMicroBatches(cutTrees); }, how, artifact)));
  const std::vector<c10::IValue> all = trainingBatch();
  const Batches two = {all, {all[0].toTensor().narrow(0, 2, 6), all[1].toTensor().narrow(0, 5, 6)}};
  const std::vector<ValueTree> twoTrees = {tree, ValueTree::of(c10::ivalue::Tuple::create(two[1]))};
  const auto ofTwo = after([&](Pipeline &p) { return p.stepOnBatches(two); }, how, artifact);
  EXPECT_FALSE(sameBits(whole, ofTwo));
  EXPECT_TRUE(sameBits(
      ofTwo, after([&](Pipeline &p) { return p.stepOnBatches(twoTrees); }, how, artifact)));
}

TEST(PipelineUse, PipelinesTrainBesideEachOther) {
  const Training how{.schedule = "zb-v", .devices = {}};
  const std::string artifact = compileTrained(how);
  auto trained = [&] {
    return after(
        [&](Pipeline &pipeline) {
          for (int step = 0; step < 10; ++step)
            take(pipeline.step(trainingBatch()));
          return pipeline.step(trainingBatch());
        },
        how, artifact);
  };
  std::future<c10::IValue> first = std::async(std::launch::async, trained),
                           second = std::async(std::launch::async, trained);
  const c10::IValue alone = trained();
  EXPECT_TRUE(sameBits(alone, first.get()));
  EXPECT_TRUE(sameBits(alone, second.get()));
}

TEST(PipelineUse, MovedFrom) {
  const Training how{.schedule = "1f1b", .devices = {}};
  Pipeline pipeline = take(Pipeline::load(compileTrained(how), runTrained(how)));
  Pipeline other = std::move(pipeline);
  // NOLINTBEGIN(bugprone-use-after-move)
  expectAllFail(pipeline, "the pipeline was moved from");
  const ValueTree batch = ValueTree::of(c10::ivalue::Tuple::create(trainingBatch()));
  EXPECT_TRUE(failedWith(pipeline.step(batch), ExitCode::Usage, "the pipeline was moved from"));
  EXPECT_TRUE(failedWith(pipeline.infer(batch), ExitCode::Usage, "the pipeline was moved from"));
  EXPECT_EQ(pipeline.plan().stages.size(), 0u);
  EXPECT_EQ(pipeline.warnings().size() + pipeline.devices().size(), 0u);
  EXPECT_EQ(pipeline.peakMemoryBytes().size(), 0u);
  EXPECT_EQ(pipeline.microBatches() + pipeline.threads(), 0);
  EXPECT_EQ(pipeline.compiledRanks(), 0u);
  EXPECT_EQ(pipeline.state().size() + pipeline.gradients().size(), 0u);
  EXPECT_EQ(pipeline.optimizerState().size(), 0u);
  // NOLINTEND(bugprone-use-after-move)
  EXPECT_TRUE(succeeded(other.step(trainingBatch())));
}

} // namespace
} // namespace pipec
