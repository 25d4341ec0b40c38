#include "compiler/verify/PlanGradientSums.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>

namespace pipec {
namespace {

/// A plan whose parameter `w` is used by all stages, each with one attribute.
Plan planOf(size_t stages) {
  Plan plan;
  plan.training.emplace();
  TrainedParameter &parameter = plan.training->parameters.emplace_back();
  parameter.name = "w";
  for (size_t s = stages; s-- > 0;)
    parameter.uses.push_back({s, 0});
  return plan;
}

TrainedMicroBatch stepOf(const std::vector<at::Tensor> &parts) {
  TrainedMicroBatch step;
  for (const at::Tensor &part : parts) {
    ValueGradients ofAttribute;
    ofAttribute.push_back(part);
    step.gradients.push_back({ofAttribute});
  }
  return step;
}

class PlanGradientSums : public testing::Test {
protected:
  const at::Tensor first_ = at::arange(1, 9).to(at::kFloat).div(7);
  const at::Tensor second_ = at::arange(2, 10).to(at::kFloat).div(-3);
};

TEST_F(PlanGradientSums, addsThePartsOfTheStages) {
  const ParameterGradient sum = gradientOf(planOf(2), {"w"}, stepOf({first_, second_}));
  EXPECT_TRUE(sum.isSum());
  EXPECT_TRUE(sum.gradient.equal(second_.add(first_)));
  EXPECT_TRUE(isSameGradient(first_.add(second_), sum));
}

TEST_F(PlanGradientSums, partsThatCancelMayLeaveOtherRoundings) {
  const at::Tensor rounding = at::full({8}, 6e-8, at::kFloat);
  const ParameterGradient sum =
      gradientOf(planOf(2), {"w"}, stepOf({first_, first_.neg().add(rounding)}));
  EXPECT_TRUE(isSameGradient(at::zeros({8}), sum));
  EXPECT_TRUE(isSameGradient(rounding.mul(-2), sum));
}

TEST_F(PlanGradientSums, aWrongSumIsFoundWhereOthersCancel) {
  const ParameterGradient sum = gradientOf(planOf(2), {"w"}, stepOf({first_, first_.neg()}));
  EXPECT_FALSE(isSameGradient(first_.mul(1e-5), sum));
  EXPECT_FALSE(isSameGradient(at::zeros({7}), sum)) << "of other sizes";
  EXPECT_FALSE(isSameGradient(at::zeros({8}, at::kDouble), sum)) << "of another dtype";
  EXPECT_FALSE(isSameGradient(at::Tensor(), sum));
}

TEST_F(PlanGradientSums, aPartThatIsLeftOutIsFound) {
  Plan plan = planOf(3);
  const TrainedMicroBatch step = stepOf({first_, second_, first_.neg()});
  EXPECT_TRUE(isSameGradient(second_, gradientOf(plan, {"w"}, step)));
  plan.training->parameters[0].uses.pop_back();
  EXPECT_FALSE(isSameGradient(second_, gradientOf(plan, {"w"}, step)));
}

TEST_F(PlanGradientSums, aSumOfDoubledPartsIsFound) {
  const ParameterGradient sum = gradientOf(planOf(2), {"w"}, stepOf({first_, second_.mul(2)}));
  EXPECT_FALSE(isSameGradient(first_.add(second_), sum));
}

TEST_F(PlanGradientSums, aGradientOfOneStageHasEqualBits) {
  const ParameterGradient one = gradientOf(planOf(1), {"w"}, stepOf({first_}));
  EXPECT_FALSE(one.isSum());
  EXPECT_TRUE(isSameGradient(first_, one));
  EXPECT_FALSE(isSameGradient(first_.mul(1 + 1e-7).add(1e-7), one));
  EXPECT_TRUE(isSameGradient(at::Tensor(), gradientOf(planOf(1), {"other"}, stepOf({first_}))));
}

} // namespace
} // namespace pipec
