// The texts of optimizers and learning rates, frozen names, and the numbers of a step.
#include "runtime/training/Autocast.h"
#include "runtime/training/GradientNorm.h"
#include "runtime/training/LearningRates.h"
#include "runtime/training/OptimizerText.h"
#include "runtime/training/ParameterGroups.h"
#include "runtime/training/RootScale.h"
#include "runtime/training/StepNumbers.h"
#include "tests/support/Matchers.h"

#include <gtest/gtest.h>

#include <ATen/autocast_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/scalar_tensor.h>

#include <cmath>

namespace pipec {
namespace {

TEST(OptimizerText, RoundTrips) {
  for (const SettingsRow &row : optimizerRows()) {
    const NamedSettings settings = take(parseOptimizer(row.name));
    EXPECT_EQ(settings.settings, row.defaults);
    EXPECT_EQ(take(parseOptimizer(toString(settings))), settings);
  }
  const NamedSettings given = take(parseOptimizer("SGD, lr = 0.5, weight-decay=1e-3"));
  EXPECT_EQ(given["lr"], 0.5);
  EXPECT_EQ(given["weight_decay"], 1e-3);
  EXPECT_EQ(given["momentum"], 0);
  EXPECT_EQ(take(parseOptimizer(toString(given))), given);
}

TEST(OptimizerText, MistakesAreNamed) {
  for (const auto &[text, part] : {std::pair("", "expected one of sgd"),
                                   {"sgd,lr", "expected a number for lr, got \"\""},
                                   {"sgd,lr=inf", "expected a number for lr, got \"inf\""},
                                   {"adam,lr=-1", "lr: expected at least 0, got -1"},
                                   {"adam,amsgrad=2", "amsgrad: expected 0 or 1, got 2"},
                                   {"adamw,beta2=1", "beta2: expected at least 0 and less than 1"},
                                   {"adagrad,momentum=1", "expected settings of adagrad: lr,"}}) {
    const ErrorText error = errorOf(parseOptimizer(text));
    EXPECT_EQ(error.code, ExitCode::Usage);
    EXPECT_NE(error.message.find(part), std::string::npos) << text << ": " << error.message;
  }
}

TEST(LearningRates, FactorsFollowTheirFormulas) {
  const LearningRates constant;
  EXPECT_EQ(constant.factorAt(0), 1);
  EXPECT_EQ(constant.factorAt(1000), 1);
  const LearningRates warm = take(LearningRates::parse("constant,warmup=4", 0));
  EXPECT_DOUBLE_EQ(warm.factorAt(0), 0.2);
  EXPECT_DOUBLE_EQ(warm.factorAt(3), 0.8);
  EXPECT_EQ(warm.factorAt(4), 1);
  const LearningRates linear = take(LearningRates::parse("linear,floor=0.2", 10));
  EXPECT_EQ(linear.factorAt(0), 1);
  EXPECT_DOUBLE_EQ(linear.factorAt(5), 0.6);
  EXPECT_DOUBLE_EQ(linear.factorAt(10), 0.2);
  EXPECT_DOUBLE_EQ(linear.factorAt(50), 0.2);
  const LearningRates cosine = take(LearningRates::parse("cosine,steps=8", 10));
  EXPECT_DOUBLE_EQ(cosine.factorAt(4), 0.5);
  EXPECT_NEAR(cosine.factorAt(8), 0, 1e-15);
  const LearningRates step = take(LearningRates::parse("step,every=3,gamma=0.5", 10));
  EXPECT_EQ(step.factorAt(2), 1);
  EXPECT_EQ(step.factorAt(3), 0.5);
  EXPECT_EQ(step.factorAt(6), 0.25);
  EXPECT_EQ(errorOf(LearningRates::parse("cosine", 0)).code, ExitCode::Usage); // of how many steps?
  const LearningRates trial = take(LearningRates::parse("cosine,warmup=10", 3));
  EXPECT_DOUBLE_EQ(trial.factorAt(2), 3.0 / 11);
  EXPECT_EQ(trial.text(), "cosine,warmup=10,steps=3,floor=0");
}

TEST(LearningRates, MistakesAreNamed) {
  for (const auto &[text, part] :
       {std::pair("step", "step: expected every=N with it"),
        {"step,gamma=0.5", "step: expected every=N with it"},
        {"step,every=0", "every: expected a whole number of at least 1, got 0"},
        {"cosine,steps=0", "steps: expected a whole number of at least 1, got 0"},
        {"cosine,warmup=10,steps=5", "warmup: expected at most 5, its steps, got 10"},
        {"linear,floor=2", "floor: expected at most 1, the factor after the warmup, got 2"},
        {"cosin", "did you mean cosine?"},
        {"cosine,warmups=3", "did you mean warmup?"}})
    EXPECT_TRUE(failedWith(LearningRates::parse(text, 10), ExitCode::Usage, part)) << text;
}

const ParameterNames names = {{"a.weight", "tied.weight"}, {"a.bias"}, {"b"}};

TEST(ParameterNames, PatternsChooseFrozenParameters) {
  EXPECT_EQ(take(frozen({}, names)), std::vector<bool>({false, false, false}));
  EXPECT_EQ(take(frozen({"a.*"}, names)), std::vector<bool>({true, true, false}));
  EXPECT_EQ(take(frozen({"*.weight"}, names)), std::vector<bool>({true, false, false}));
  EXPECT_EQ(take(frozen({"tied.weight", "b"}, names)), std::vector<bool>({true, false, true}));
  EXPECT_EQ(take(frozen({"*"}, names)), std::vector<bool>({true, true, true}));
  EXPECT_NE(errorOf(frozen({"a"}, names)).message.find("got a"), std::string::npos);
}

TEST(ParameterGroups, TheFirstGroupThatMatchesDecides) {
  TrainingOptions options;
  options.optimizer = "sgd,lr=1,momentum=0.5";
  options.groups = {"*bias,lr=2", "a.*,lr=3,momentum=0"};
  const OptimizerSettings settings = take(optimizerSettings(options, names));
  ASSERT_EQ(settings.each.size(), 3u);
  EXPECT_EQ(settings.each[0]["lr"], 3);
  EXPECT_EQ(settings.each[0]["momentum"], 0);
  EXPECT_EQ(settings.each[1]["lr"], 2);
  EXPECT_EQ(settings.each[1]["momentum"], 0.5);
  EXPECT_EQ(settings.each[2], *settings.common);
  options.groups.push_back("a.bias,lr=4"); // the first group has it already
  EXPECT_EQ(errorOf(optimizerSettings(options, names)).code, ExitCode::Usage);
  options.groups = {"c,lr=4"};
  EXPECT_EQ(errorOf(optimizerSettings(options, names)).code, ExitCode::Usage);
  options.groups = {"b,lr=4"};
  options.optimizer.clear();
  EXPECT_EQ(errorOf(optimizerSettings(options, names)).code, ExitCode::Usage);
}

TEST(RootScale, CountsSamples) {
  const std::vector<at::Tensor> mean = rootScales({3, 1}, LossReduction::Mean);
  EXPECT_EQ(mean[0].item<float>(), 0.75f);
  EXPECT_EQ(mean[1].item<float>(), 0.25f);
  EXPECT_EQ(rootScales({3, 1}, LossReduction::Sum)[0].item<float>(), 1.f);
  const at::Tensor third = rootScales({1, 2}, LossReduction::Mean)[0];
  EXPECT_EQ(third.item<double>(), 1.0 / 3) << "for a loss of float64";
  EXPECT_EQ(third.to(at::kFloat).item<float>(), static_cast<float>(1.0 / 3));
  auto total = [](const std::vector<at::Tensor> &scales, std::optional<double> count) {
    LossSum sum;
    sum.add(at::scalar_tensor(2.0), scales[0]);
    sum.add(at::scalar_tensor(4.0), scales[1]);
    return sum.total(count);
  };
  EXPECT_EQ(total(mean, std::nullopt), 2.5);
  EXPECT_EQ(total(rootScalesOfSums(2), 4), 1.5); // sums over four counts
  EXPECT_EQ(LossSum().total(std::nullopt), 0);
}

/// A tensor is cast by the autocast of its own device.
TEST(Autocast, IsOnForEveryDeviceAndLeavesTheCallersState) {
  for (const at::DeviceType type : {at::kCPU, at::kCUDA}) {
    const at::ScalarType before = at::autocast::get_autocast_dtype(type);
    {
      const AutocastScope scope(Precision::Bf16);
      EXPECT_TRUE(at::autocast::is_autocast_enabled(type));
      EXPECT_EQ(at::autocast::get_autocast_dtype(type), at::kBFloat16);
    }
    EXPECT_FALSE(at::autocast::is_autocast_enabled(type));
    EXPECT_EQ(at::autocast::get_autocast_dtype(type), before);
    const AutocastScope none(Precision::Full);
    EXPECT_FALSE(at::autocast::is_autocast_enabled(type));
  }
}

TEST(StepNumbers, TheFirstThatIsNotFiniteIsNamed) {
  const auto nameOf = [](size_t parameter) { return "parameter p" + std::to_string(parameter); };
  StepNumbers numbers = {{0, at::scalar_tensor(3.0)}, {1, at::scalar_tensor(4.0)}};
  EXPECT_EQ(take(judge(numbers, false, nameOf)).total.item<double>(), 5);
  numbers[1] = at::scalar_tensor(NAN);
  ErrorText error = errorOf(judge(numbers, false, nameOf));
  EXPECT_EQ(error.code, ExitCode::NotFinite);
  EXPECT_EQ(error.message, "parameter p1: expected gradients with a finite norm, got nan");
  EXPECT_FALSE(take(judge(numbers, true, nameOf)).isFinite);
  numbers[-3] = at::scalar_tensor(INFINITY);
  error = errorOf(judge(numbers, false, nameOf));
  EXPECT_EQ(error.message, "micro-batch 2: expected a finite loss, got inf");
  numbers[-2] = at::scalar_tensor(NAN);
  numbers[-1] = at::scalar_tensor(1.0);
  error = errorOf(judge(numbers, false, nameOf));
  EXPECT_EQ(error.message, "micro-batch 1: expected a finite loss, got nan");
  error = errorOf(judge(numbers, false, nameOf, 3));
  EXPECT_EQ(error.message, "stage 3, micro-batch 1: expected a finite loss, got nan");
  EXPECT_EQ(error.help.find("--on-nan skip"), 0u); // nothing was updated yet: it is the data
  error = errorOf(judge(numbers, false, nameOf, 3, /*mayDiverge=*/true));
  EXPECT_EQ(error.help.find("choose a smaller learning rate"), 0u) << error.help;
}

TEST(StepNumbers, SkippedStepsInARow) {
  SkippedSteps steps;
  for (bool skipped : {true, false, true})
    EXPECT_FALSE(static_cast<bool>(steps.note(skipped, 2)));
  EXPECT_EQ(describe(steps.note(true, 2)).code, ExitCode::NotFinite);
}

/// As torch.nn.utils.clip_grad_norm_: the norm has the widest dtype.
TEST(GradientNorm, OfSeveralDtypesIsNotRounded) {
  const at::Tensor half = at::full({1}, 3.0, at::kBFloat16), single = at::full({1}, 4.015625);
  const at::Tensor total = totalNorm({gradientNorm(half), gradientNorm(single)});
  EXPECT_EQ(total.scalar_type(), at::kFloat);
  EXPECT_NEAR(total.item<double>(), std::hypot(3.0, 4.015625), 1e-6);
}

TEST(GradientNorm, ClipsAllByOneFactor) {
  std::vector<at::Tensor> gradients = {at::full({1}, 3.0), at::Tensor(), at::full({1}, 4.0)};
  const at::Tensor total = totalNorm({gradientNorm(gradients[0]), gradientNorm(gradients[2])});
  clipGradients(gradients, clipFactor(total, 10));
  EXPECT_EQ(gradients[0].item<float>(), 3);
  clipGradients(gradients, clipFactor(total, 1));
  EXPECT_NEAR(gradients[0].item<float>(), 0.6, 1e-6);
  EXPECT_NEAR(gradients[2].item<float>(), 0.8, 1e-6);
}

} // namespace
} // namespace pipec
