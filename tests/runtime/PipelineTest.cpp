// The pipeline on a hand-made artifact: equal to the unsplit model, refusals, failures.
#include "runtime/Pipeline.h"

#include "ir/values/BindArguments.h"
#include "ir/values/CompareValues.h"
#include "runtime/Reference.h"
#include "tests/runtime/SmallPipeline.h"
#include "tests/support/Matchers.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Dict.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/jit_type.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>

#include <chrono>
#include <thread>

namespace pipec {
namespace {

std::vector<c10::IValue> batch(int64_t samples) {
  return {at::arange(samples * 8, at::kFloat).view({samples, 8}) / 11, 3};
}

llvm::Expected<Pipeline> loadSmall(const SmallModel &model, const PipelineOptions &options) {
  std::string directory = scratchPath("model.pipe");
  writeSmallArtifact(directory, model);
  return Pipeline::load(directory, options);
}

struct Layout {
  size_t ranks;
  int64_t microBatches;
};
class Equality : public testing::TestWithParam<Layout> {};

/// Skips, ties in transmit mode, state, random operators and an early output, all at once, call
/// after call.
TEST_P(Equality, PipelineEqualsTheUnsplitModel) {
  std::string file = scratchPath("model.pt");
  writeSmallModel(file);
  ReferenceOptions plain;
  plain.microBatches = GetParam().microBatches;
  plain.threads = 1;
  plain.seed = 17;
  auto reference = Reference::load(file, plain);
  ASSERT_TRUE(succeeded(reference));
  PipelineOptions options;
  options.microBatches = GetParam().microBatches;
  options.threads = 1;
  options.seed = 17;
  SmallModel model;
  model.ranks = GetParam().ranks;
  auto pipeline = loadSmall(model, options);
  ASSERT_TRUE(succeeded(pipeline));
  for (int call = 0; call < 3; ++call) {
    auto expected = reference->infer(batch(7));
    auto actual = pipeline->infer(batch(7));
    ASSERT_TRUE(succeeded(expected));
    ASSERT_TRUE(succeeded(actual));
    // The reference's result dict has values of any type: compare leaf by leaf.
    EXPECT_TRUE(sameBits(*expected, *actual))
        << "call " << call << ": " << compare(*expected, *actual, 0, 0).firstDifference;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Equality,
                         testing::Values(Layout{3, 1}, Layout{3, 2}, Layout{3, 7}, Layout{2, 3},
                                         Layout{1, 3}),
                         [](const auto &test) {
                           return fmt::format("ranks{}microBatches{}", test.param.ranks,
                                              test.param.microBatches);
                         });

TEST(Pipeline, CallsDrawDifferently) {
  auto pipeline = loadSmall({}, {});
  ASSERT_TRUE(succeeded(pipeline));
  auto first = pipeline->infer(batch(4)), second = pipeline->infer(batch(4));
  ASSERT_TRUE(succeeded(first));
  ASSERT_TRUE(succeeded(second));
  EXPECT_FALSE(sameBits(*first, *second));
}

TEST(Pipeline, TakesAndGivesTrees) {
  auto pipeline = loadSmall({}, {}), same = loadSmall({}, {});
  ASSERT_TRUE(succeeded(pipeline));
  ASSERT_TRUE(succeeded(same));
  auto expected = same->infer(batch(4));
  ASSERT_TRUE(succeeded(expected));
  c10::impl::GenericDict keywords(c10::StringType::get(), c10::AnyType::get());
  keywords.insert("scale", 3);
  keywords.insert("x", batch(4)[0]);
  auto actual = pipeline->infer(ValueTree::of(keywords));
  ASSERT_TRUE(succeeded(actual));
  EXPECT_TRUE(sameBits(*expected, actual->ivalue()));
  // The default of scale is filled in.
  EXPECT_TRUE(succeeded(pipeline->infer(ValueTree::of(batch(4)[0]))));
  keywords.insert("y", 1);
  EXPECT_TRUE(failedWith(pipeline->infer(ValueTree::of(keywords)), ExitCode::Usage, "y"));
  EXPECT_TRUE(failedWith(pipeline->infer(ValueTree::of(1.5)), ExitCode::Unreadable,
                         "arguments: expected arguments as a tuple, list, dict or tensor"));
}

TEST(Pipeline, MeasuresTheStep) {
  auto pipeline = loadSmall({}, {});
  ASSERT_TRUE(succeeded(pipeline));
  StepStats stats;
  ASSERT_TRUE(succeeded(pipeline->infer(batch(4), &stats)));
  EXPECT_EQ(stats.stageBusyNs.size(), 3u);
  for (int64_t busy : stats.stageBusyNs)
    EXPECT_GT(busy, 0);
  EXPECT_GT(stats.makespanNs, 0);
  EXPECT_GE(stats.bubbleMakespan, stats.bubbleLongestSpan - 1e-9);
  EXPECT_LE(stats.bubbleMakespan, 1);
}

TEST(Pipeline, BindsToTheDeclaredTypes) {
  auto pipeline = loadSmall({}, {});
  ASSERT_TRUE(succeeded(pipeline));
  auto values = pipeline->bind({{at::ones({4, 8})}, {{"scale", 3}}});
  ASSERT_TRUE(succeeded(values));
  ASSERT_EQ(values->size(), 2u);
  EXPECT_EQ((*values)[1].toInt(), 3);
  EXPECT_TRUE(failedWith(pipeline->bind({{at::ones({4, 8})}, {{"scale", at::ones({1})}}}),
                         ExitCode::Usage, "scale: expected int"));
  EXPECT_TRUE(failedWith(pipeline->bind({{1}, {}}), ExitCode::Usage, "x: expected Tensor"));
}

TEST(Pipeline, KeepsTheCallersThreadCount) {
  int before = at::get_num_threads();
  at::set_num_threads(2);
  PipelineOptions options;
  options.threads = 1;
  auto pipeline = loadSmall({}, options);
  ASSERT_TRUE(succeeded(pipeline));
  ASSERT_TRUE(succeeded(pipeline->infer(batch(4))));
  EXPECT_EQ(at::get_num_threads(), 2);
  std::thread([] { EXPECT_EQ(at::get_num_threads(), 2); }).join();
  at::set_num_threads(before);
}

TEST(Pipeline, RefusesWhatThePlanDoesNotAllowAndStaysUsable) {
  auto pipeline = loadSmall({}, {});
  ASSERT_TRUE(succeeded(pipeline));
  EXPECT_TRUE(
      failedWith(pipeline->infer({at::ones({4, 8})}), ExitCode::Usage, "expected 2, got 1"));
  EXPECT_TRUE(failedWith(pipeline->infer({at::ones({4, 9}), 2}), ExitCode::Usage,
                         "input x, micro-batch 0, dimension 1: expected size 8, got 9"));
  EXPECT_TRUE(failedWith(pipeline->infer({at::ones({4, 8, 1}), 2}), ExitCode::Usage,
                         "expected 2 dimensions, got 3"));
  auto sample = pipeline->infer({at::ones({8}), 2});
  ASSERT_FALSE(static_cast<bool>(sample));
  const ErrorText text = describe(sample.takeError());
  EXPECT_EQ(text.message, "input x, micro-batch 0: expected 2 dimensions, got 1");
  EXPECT_NE(text.help.find("give a single sample as a batch of one"), std::string::npos);
  EXPECT_TRUE(failedWith(pipeline->infer({at::ones({4, 8}, at::kDouble), 2}), ExitCode::Usage,
                         "expected dtype float32, got float64"));
  EXPECT_TRUE(succeeded(pipeline->infer(batch(4))));
}

TEST(Pipeline, AFixedBatchIsTheOnlyOne) {
  SmallModel model;
  model.editPlan = [](Plan &plan) {
    plan.signature.batchSymbolic = false;
    plan.signature.batchSize = 3;
    plan.signature.inputs[0].tensor.shape[0] = {0, 3, false};
    plan.signature.inputs[0].tensor.bytes = 3 * 8 * 4;
  };
  auto pipeline = loadSmall(model, {});
  ASSERT_TRUE(succeeded(pipeline));
  EXPECT_TRUE(failedWith(pipeline->infer(batch(8)), ExitCode::Usage,
                         "batch: expected a multiple of 3 samples (the model's constants fix the "
                         "size of a micro-batch), got 8"));
  for (int64_t microBatches : {1, 2, 5}) { // the plan's default is 2
    EXPECT_TRUE(succeeded(pipeline->infer(batch(3 * microBatches))));
    EXPECT_EQ(pipeline->microBatches(), microBatches);
  }
  PipelineOptions two;
  two.microBatches = 2;
  auto explicitly = loadSmall(model, two);
  ASSERT_TRUE(succeeded(explicitly));
  EXPECT_TRUE(failedWith(explicitly->infer(batch(8)), ExitCode::Usage, "expected 3 samples"));
}

TEST(Pipeline, ASmallBatchIsCutIntoFewerMicroBatchesByDefault) {
  PipelineOptions four;
  four.microBatches = 4;
  auto byDefault = loadSmall({}, {}), explicitly = loadSmall({}, four);
  ASSERT_TRUE(succeeded(byDefault));
  ASSERT_TRUE(succeeded(explicitly));
  EXPECT_EQ(byDefault->microBatches(), 2);
  for (auto [samples, expected] : {std::pair(1, 1), {2, 2}, {7, 2}, {1, 1}}) {
    EXPECT_TRUE(succeeded(byDefault->infer(batch(samples))));
    EXPECT_EQ(byDefault->microBatches(), expected);
  }
  EXPECT_TRUE(failedWith(explicitly->infer(batch(3)), ExitCode::Usage,
                         "expected at most 3, the number of samples, got 4"));
  EXPECT_TRUE(failedWith(explicitly->infer(batch(0)), ExitCode::Usage,
                         "expected 1, because the batch has no samples, got 4"));
}

TEST(Pipeline, AGivenScheduleFixesTheNumberOfMicroBatches) {
  PipelineOptions csv;
  csv.scheduleCsv = "0F0,0F1\n1F0,1F1\n2F0,2F1\n";
  auto pipeline = loadSmall({}, csv);
  ASSERT_TRUE(succeeded(pipeline));
  EXPECT_TRUE(failedWith(pipeline->infer(batch(1)), ExitCode::Usage,
                         "batch: expected at least 2 samples, one sample per micro-batch of the "
                         "schedule, got 1"));
  EXPECT_TRUE(succeeded(pipeline->infer(batch(2))));
}

TEST(Pipeline, MoreMicroBatchesThanSamplesAreRefusedAtOnce) {
  PipelineOptions many;
  many.microBatches = 1 << 20;
  auto start = std::chrono::steady_clock::now();
  auto pipeline = loadSmall({}, many);
  ASSERT_TRUE(succeeded(pipeline));
  EXPECT_TRUE(failedWith(pipeline->infer(batch(4)), ExitCode::Usage,
                         "expected at most 4, the number of samples, got 1048576"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST(Pipeline, AFailureNamesStageModulesAndMicroBatch) {
  SmallModel model;
  model.failInStage1 = true;
  PipelineOptions options;
  options.microBatches = 4;
  auto pipeline = loadSmall(model, options);
  ASSERT_TRUE(succeeded(pipeline));
  ASSERT_TRUE(succeeded(pipeline->infer(batch(8))));
  at::Tensor bad = at::ones({8, 8});
  bad.select(0, 5).fill_(100000.0);
  auto start = std::chrono::steady_clock::now();
  auto failed = pipeline->infer({bad, 2});
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(3));
  ASSERT_FALSE(bool(failed));
  ErrorText text = describe(failed.takeError());
  EXPECT_EQ(text.code, ExitCode::Usage);
  EXPECT_EQ(text.message.rfind("stage 1 (layers.0..layers.3), micro-batch 2: ", 0), 0u)
      << text.message;
  EXPECT_NE(text.message.find("too large"), std::string::npos) << text.message;
}

TEST(Pipeline, ASecondPipelineWorksBesideABrokenOne) {
  SmallModel model;
  model.failInStage1 = true;
  auto broken = loadSmall(model, {});
  ASSERT_TRUE(succeeded(broken));
  ASSERT_FALSE(bool(succeeded(broken->infer({at::ones({4, 8}) * 1e6, 2}))));
  std::string directory = scratchPath("other.pipe");
  writeSmallArtifact(directory, {});
  auto other = Pipeline::load(directory, {});
  ASSERT_TRUE(succeeded(other));
  EXPECT_TRUE(succeeded(other->infer(batch(4))));
}

TEST(Pipeline, BadOptionsAreUsageErrors) {
  PipelineOptions devices, unknown, schedule, csv, negative;
  devices.devices = {"cpu", "cpu"};
  EXPECT_TRUE(failedWith(loadSmall({}, devices), ExitCode::Usage, "each of 3 ranks, got 2"));
  unknown.devices = {"tpu"};
  EXPECT_TRUE(failedWith(loadSmall({}, unknown), ExitCode::Usage, "expected cpu, cuda or cuda:N"));
  schedule.scheduleName = "1f1b";
  EXPECT_TRUE(
      failedWith(loadSmall({}, schedule), ExitCode::Usage, "expected forward-only or a CSV file"));
  csv.scheduleCsv = "0F0\n1F0\n2F0\n"; // one micro-batch; the plan has two
  EXPECT_TRUE(failedWith(loadSmall({}, csv), ExitCode::Usage, "missing"));
  negative.microBatches = -1;
  EXPECT_TRUE(failedWith(loadSmall({}, negative), ExitCode::Usage, "at least 1"));
}

TEST(Pipeline, AGivenScheduleGivesTheSameNumbers) {
  PipelineOptions csv;
  csv.threads = 1;
  csv.scheduleCsv = "0F1,0F0\n1F1,1F0\n2F1,2F0\n"; // backwards
  EXPECT_TRUE(failedWith(loadSmall({}, csv), ExitCode::Usage, "stage 2 writes state (steps)"));
  csv.scheduleCsv = "0F1,0F0\n1F1,1F0\n2F0,2F1\n"; // only where nothing depends on the order
  PipelineOptions plain;
  plain.threads = 1;
  SmallModel twoSteps;
  auto ordered = loadSmall(twoSteps, plain), backwards = loadSmall(twoSteps, csv);
  ASSERT_TRUE(succeeded(ordered));
  ASSERT_TRUE(succeeded(backwards));
  auto a = ordered->infer(batch(4)), b = backwards->infer(batch(4));
  ASSERT_TRUE(succeeded(a));
  ASSERT_TRUE(succeeded(b));
  EXPECT_TRUE(sameBits(a->toGenericDict().at("early"), b->toGenericDict().at("early")));
  EXPECT_TRUE(sameBits(a->toGenericDict().at("rest").toTupleRef().elements()[0],
                       b->toGenericDict().at("rest").toTupleRef().elements()[0]));
}

TEST(Pipeline, AStageFileThatIsNotOneIsRefused) {
  SmallModel model;
  model.methodOfStage2 = "something_else";
  EXPECT_TRUE(failedWith(loadSmall(model, {}), ExitCode::BadArtifact, "pipec_forward"));
}

TEST(PipelineOptions, NumbersThatCannotBeAreNamed) {
  const auto refused = [](const std::string &text, const PipelineOptions &options) {
    EXPECT_TRUE(failedWith(loadSmall({}, options), ExitCode::Usage, text)) << text;
  };
  PipelineOptions options;
  options.dynamic = -1;
  refused("dynamic: expected at least 1, or 0 for the default, got -1", options);
  options = {};
  options.microBatches = INT64_MAX;
  refused("microBatches: expected at most 1048576, got 9223372036854775807", options);
  options = {};
  options.threads = 1025;
  refused("threads: expected at most 1024, got 1025", options);
  options = {};
  options.scheduleName = "forward-only";
  options.scheduleCsv = "0F0\n";
  refused("scheduleName: expected it without scheduleCsv, got both", options);
  options = {};
  options.training.emplace().clipNorm = -1;
  refused("clipNorm: expected more than 0, or 0 for none, got -1", options);
  options.training.emplace().mostSkipped = -2;
  refused("mostSkipped: expected at least 1, or 0 for any number, got -2", options);
  options.training.emplace().learningRates = "cosine";
  refused("learningRates: expected an optimizer beside cosine, got none", options);
}

} // namespace
} // namespace pipec
