// Are merged results those of the whole batch, and do samples affect each other?
#include "ir/batch/discovery/CheckResults.h"

#include <gtest/gtest.h>

#include <ATen/Functions.h>

#include <cmath>
#include <limits>

namespace pipec {
namespace {

using Equal = ResultCheck::Equal;
constexpr MergeRule kConcat{MergeRule::Kind::Concat, 0};

/// Parts of 3 and 2 samples, against a whole of 5.
ResultCheck checked(const c10::IValue &whole, const c10::IValue &first, const c10::IValue &second,
                    MergeRule rule = kConcat) {
  Signature signature;
  signature.leaves.resize(1);
  signature.leaves[0].merge = rule;
  TrialLeaves leaves;
  leaves.whole = {{whole}};
  leaves.parts = {{first}, {second}};
  return checkResults(signature, leaves, "").front();
}

/// Three samples before and after the one in the middle changed.
std::string talk(const c10::IValue &before, const c10::IValue &after, MergeRule rule = kConcat) {
  Signature signature;
  signature.leaves.resize(1);
  signature.leaves[0].merge = rule;
  TrialLeaves leaves;
  leaves.varied = {{before}};
  leaves.poked = {{after}};
  return crossTalk(signature, leaves, {"logits"});
}

TEST(CheckResults, BothNumbersAreNamed) {
  const at::Tensor whole = at::ones({5, 3});
  at::Tensor second = at::ones({2, 3});
  EXPECT_EQ(checked(whole, at::ones({3, 3}), second), (ResultCheck{Equal::Yes, ""}));
  second[1][2] = 0.5;
  EXPECT_EQ(checked(whole, at::ones({3, 3}), second),
            (ResultCheck{Equal::No, "at [4,2] 1 for the whole batch, 0.5 for micro-batches"}));
  EXPECT_EQ(checked(at::scalar_tensor(9.0), at::scalar_tensor(9.0), at::scalar_tensor(4.0),
                    {MergeRule::Kind::Mean, 0}),
            (ResultCheck{Equal::No, "9 for the whole batch, 7 for micro-batches"}));
}

TEST(CheckResults, RoundingIsEqual) {
  const at::Tensor values = at::randn({5, 300});
  const at::Tensor first = values.narrow(0, 0, 3), second = values.narrow(0, 3, 2);
  EXPECT_EQ(checked(values, first, second.mul(1 + 1e-6)).equal, Equal::Yes);
  EXPECT_EQ(checked(values, first, second.mul(1.01)).equal, Equal::No);
  EXPECT_EQ(
      checked(values.to(at::kHalf), first.to(at::kHalf), second.to(at::kHalf).mul(1 + 1e-3)).equal,
      Equal::Yes);
}

TEST(CheckResults, WhatIsNowhereFiniteIsNotTried) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const MergeRule mean{MergeRule::Kind::Mean, 0};
  auto number = [](double value) { return at::scalar_tensor(value, at::kFloat); };
  EXPECT_EQ(checked(number(-inf), number(-inf), number(4), mean).reason,
            "not finite in the test runs, which several rules would give");
  EXPECT_EQ(checked(nan, nan, 4.0, mean).equal, Equal::NotTried);
  EXPECT_EQ(checked(number(7), number(inf), number(4), mean).equal, Equal::No);
  at::Tensor rows = at::randn({5, 3});
  EXPECT_EQ(checked(at::full({5, 3}, nan), at::full({3, 3}, nan), at::full({2, 3}, nan)).equal,
            Equal::NotTried);
  rows[0][1] = nan;
  rows[1][1] = inf;
  const at::Tensor first = rows.narrow(0, 0, 3), second = rows.narrow(0, 3, 2);
  EXPECT_EQ(checked(rows, first, second.mul(1 + 1e-6)).equal, Equal::Yes) << "up to rounding";
  EXPECT_EQ(checked(rows, first, second.mul(1.5)).equal, Equal::No) << "the others count";
}

TEST(CheckResults, RoundingFollowsTheTerms) {
  const MergeRule sum{MergeRule::Kind::Sum, 0};
  auto number = [](double value) { return at::scalar_tensor(value, at::kFloat); };
  EXPECT_EQ(checked(number(1.6e-7), number(1), number(-1 + 2e-7), sum).equal, Equal::Yes);
  EXPECT_EQ(checked(number(1e-2), number(1), number(-1), sum).equal, Equal::No);
  const at::Tensor parts = at::randn({5, 3}), complex = at::complex(parts, parts.neg());
  EXPECT_EQ(checked(complex, complex.narrow(0, 0, 3), complex.narrow(0, 3, 2).mul(1 + 1e-6)).equal,
            Equal::Yes);
  EXPECT_EQ(checked(complex, complex.narrow(0, 0, 3), complex.narrow(0, 3, 2).mul(1.5)).equal,
            Equal::No);

  Signature signature; // beside rows of about 1, 7e-7 is rounding
  signature.leaves.resize(2);
  signature.leaves[0].merge = kConcat;
  signature.leaves[1].merge = sum;
  TrialLeaves leaves;
  leaves.whole = {{at::ones({5, 3}), number(7e-7)}};
  leaves.parts = {{at::ones({3, 3}), number(1e-7)}, {at::ones({2, 3}), number(0)}};
  EXPECT_EQ(checkResults(signature, leaves, "")[1].equal, Equal::NotTried);
}

TEST(CheckResults, OfAListBothShapesAreNamed) {
  const ResultCheck check = checked(at::ones({5, 5}), at::ones({3, 3}), at::ones({2, 2}), {});
  EXPECT_EQ(check.reason, "float32[5,5] for the whole batch, a list of float32[3,3] and "
                          "float32[2,2] for micro-batches");
  EXPECT_EQ(checked(4.0, 1.5, 2.5, {}).reason,
            "4 for the whole batch, a list of 1.5 and 2.5 for micro-batches");
}

/// A masked selection has as many elements as values say, so its sizes show no rule.
TEST(CheckResults, AConcatenationFitsOnlyIfItGivesTheWhole) {
  const at::Tensor whole = at::arange(7, at::kFloat);
  auto fits = [&](const at::Tensor &first, const at::Tensor &second, const at::Tensor &all) {
    return checked(all, first, second, {}).fits;
  };
  EXPECT_EQ(fits(whole.narrow(0, 0, 3), whole.narrow(0, 3, 4), whole), "concat:0");
  EXPECT_EQ(fits(whole.narrow(0, 4, 3), whole.narrow(0, 0, 4), whole), ""); // another order
  EXPECT_EQ(fits(whole.narrow(0, 0, 7), whole.narrow(0, 0, 0), whole), ""); // shows no order
  EXPECT_EQ(fits(at::ones({3}), at::ones({4}), at::ones({7})), "");
  const at::Tensor wide = whole.expand({2, 7}).contiguous();
  EXPECT_EQ(fits(wide.narrow(1, 0, 3), wide.narrow(1, 3, 4), wide), "concat:1");
}

TEST(CheckResults, AListIsNotTheWhole) {
  EXPECT_EQ(checked(at::ones({5, 5}), at::ones({3, 3}), at::ones({2, 2}), {}).equal, Equal::No);
  const c10::IValue none;
  EXPECT_EQ(checked(none, none, none, {}).equal, Equal::Yes);
}

TEST(CheckResults, ZerosAreNotTriedUnlessTheyAreEntriesOfSamples) {
  const MergeRule join{MergeRule::Kind::Join, 0}, sum{MergeRule::Kind::Sum, 0};
  auto zeros = [](size_t count) { return c10::IValue(std::vector<int64_t>(count)); };
  EXPECT_EQ(checked(zeros(5), zeros(3), zeros(2), join), (ResultCheck{Equal::Yes, ""}));
  EXPECT_EQ(checked(zeros(0), zeros(0), zeros(0), join).reason,
            "empty in every test run, which several rules would give");
  EXPECT_EQ(checked(zeros(4), zeros(4), zeros(4), sum).reason,
            "all 0 in every test run, which several rules would give");
  EXPECT_EQ(checked(0, 0, 0, sum).reason, "0 in every test run, which several rules would give");
}

TEST(CheckResults, SumsThatRunsDoNotProveAreNotTried) {
  Signature signature;
  signature.leaves.resize(3);
  for (size_t l = 0; l < 2; ++l)
    signature.leaves[l].merge = {MergeRule::Kind::Sum, 0};
  signature.leaves[1].type = "float";
  signature.leaves[2].merge = kConcat;
  const std::vector<ResultCheck> yes(3, ResultCheck{Equal::Yes, ""});
  std::vector<ResultCheck> checks = yes;
  doubtSums(checks, signature, {0, 2}, "");
  EXPECT_EQ(checks, yes) << "the sums were tried";
  doubtSums(checks, signature, {0, 2}, "refused");
  EXPECT_EQ(checks[0], (ResultCheck{Equal::NotTried, "refused"}));
  EXPECT_EQ(checks[2], yes[2]) << "no sum";
  checks = yes;
  doubtListedValues(checks, signature, "");
  EXPECT_EQ(checks, yes);
  doubtListedValues(checks, signature, "aten::unique");
  EXPECT_EQ(checks[0].equal, Equal::NotTried);
  EXPECT_EQ(checks[1], yes[1]) << "a loss has no entries";
  EXPECT_EQ(checks[2], yes[2]);
}

TEST(CheckResults, ANumberMayCountDifferentValues) {
  Signature signature;
  signature.leaves.resize(2);
  for (OutputLeaf &leaf : signature.leaves) {
    leaf.merge = {MergeRule::Kind::Sum, 0};
    leaf.tensor = {.known = true, .dtype = "float32", .shape = {}, .strides = {}};
  }
  signature.leaves[1].tensor.dtype = "int64";
  std::vector<ResultCheck> checks(2, ResultCheck{Equal::Yes, ""});
  doubtListedValues(checks, signature, "aten::unique");
  EXPECT_EQ(checks[0].equal, Equal::Yes) << "a loss";
  EXPECT_EQ(checks[1].equal, Equal::NotTried);
}

TEST(CheckResults, AllSamplesMayContradictTheFirst) {
  const MergeRule sum{MergeRule::Kind::Sum, 0}, mean{MergeRule::Kind::Mean, 0};
  const ResultCheck untried{Equal::NotTried, "0"}, yes{Equal::Yes, ""}, no{Equal::No, "2, 3"};
  auto contradicts = [](MergeRule rule, const ResultCheck &ofExample, const ResultCheck &ofAll,
                        bool given) {
    Signature signature;
    signature.leaves.resize(1);
    signature.leaves[0].merge = rule;
    return contradict(signature, {ofExample}, {ofAll}, {given});
  };
  EXPECT_TRUE(contradicts(sum, untried, no, false));
  EXPECT_TRUE(contradicts(sum, yes, no, false));
  EXPECT_FALSE(contradicts(sum, untried, yes, false));
  EXPECT_FALSE(contradicts(sum, no, no, false)) << "it is known";
  EXPECT_FALSE(contradicts(sum, untried, no, true)) << "the user gave the rule";
  EXPECT_FALSE(contradicts(mean, yes, no, false)) << "a loss is a mean, with a warning";
}

TEST(CheckResults, WhatDoesNotFitTogetherIsSaid) {
  const ResultCheck check = checked(7, 7, 8, {MergeRule::Kind::Same, 0});
  EXPECT_EQ(check.equal, Equal::No);
  EXPECT_NE(check.reason.find("expected the same value from all micro-batches"), std::string::npos);
}

TEST(CrossTalk, RowsOfOtherSamplesStay) {
  const at::Tensor before = at::ones({3, 2});
  at::Tensor after = before.clone();
  after[1].fill_(5);
  EXPECT_EQ(talk(before, after), "") << "its own row";
  after[2][0] = 0.75;
  EXPECT_EQ(talk(before, after),
            "result logits of sample 2 changes from 1 to 0.75 if only sample 1 changes");
  EXPECT_EQ(talk(before.t(), after.t(), {MergeRule::Kind::Concat, 1}),
            "result logits of sample 2 changes from 1 to 0.75 if only sample 1 changes");
  EXPECT_EQ(talk(before, after, {}), "") << "a list has no rows of samples";
}

TEST(CrossTalk, ASampleMayHaveSeveralRows) {
  const at::Tensor before = at::arange(12, at::kFloat).view({6, 2});
  at::Tensor after = before.clone();
  after.narrow(0, 2, 2).fill_(-1);
  EXPECT_EQ(talk(before, after), "");
  after[1][1] = -1;
  EXPECT_NE(talk(before, after), "");
  EXPECT_EQ(talk(at::ones({4, 2}), at::zeros({4, 2})), "") << "a row belongs to no sample";
}

TEST(CrossTalk, RowsMayBeInRoundsOverTheSamples) {
  const at::Tensor before = at::ones({3, 2});
  at::Tensor after = before.clone();
  after[1].mul_(0.5);
  EXPECT_EQ(talk(before.repeat({2, 1}), after.repeat({2, 1})), "");
  at::Tensor other = after.repeat({2, 1});
  other[5].mul_(0.5);
  EXPECT_NE(talk(before.repeat({2, 1}), other), "");
}

TEST(CrossTalk, EntriesOfLists) {
  const c10::IValue before(std::vector<int64_t>{1, 2, 3}), own(std::vector<int64_t>{1, 7, 3}),
      other(std::vector<int64_t>{1, 7, 4});
  EXPECT_EQ(talk(before, own, {MergeRule::Kind::Join, 0}), "");
  EXPECT_NE(talk(before, other, {MergeRule::Kind::Join, 0}), "");
}

} // namespace
} // namespace pipec
