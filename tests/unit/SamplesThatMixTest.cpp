// Whether a sample's results depend on the others of its micro-batch.
#include "ir/SamplesThatMix.h"

#include <gtest/gtest.h>

#include <ATen/Functions.h>

namespace pipec {
namespace {

std::string mixOf(const at::Tensor &whole, const at::Tensor &part, int64_t begin, int64_t count,
                  MergeRule rule = {MergeRule::Kind::Concat, 0}) {
  Signature signature;
  signature.leaves.resize(1);
  signature.leaves[0].merge = rule;
  return samplesThatMix(signature, {whole}, {part}, begin, count);
}

TEST(SamplesThatMix, WhatDiffersIsNamed) {
  const at::Tensor alone = at::ones({4, 3});
  at::Tensor mixed = alone.clone();
  mixed[3][1] = 0.5;
  EXPECT_EQ(mixOf(mixed, alone.narrow(0, 2, 2), 2, 2),
            "output 0 of sample 3: 0.5 with the others, 1 without");
  EXPECT_EQ(mixOf(mixed.t(), alone.narrow(0, 2, 2).t(), 2, 2, {MergeRule::Kind::Concat, 1}),
            "output 0 of sample 3: 0.5 with the others, 1 without");
  EXPECT_EQ(mixOf(alone, alone.narrow(0, 2, 2), 2, 2), "");
  EXPECT_EQ(mixOf(mixed, alone.narrow(0, 2, 2), 2, 1), "") << "sample 3 was not asked about";
}

TEST(SamplesThatMix, ASampleMayHaveSeveralRows) {
  Signature signature;
  signature.leaves.resize(1);
  signature.leaves[0].merge = {MergeRule::Kind::Concat, 0};
  signature.leaves[0].tensor.shape = {{.perBatch = 3}, {.constant = 2}};
  const at::Tensor whole = at::arange(24, at::kFloat).view({12, 2}); // 4 samples of 3 rows
  auto mix = [&](const at::Tensor &part) {
    return samplesThatMix(signature, {whole}, {part}, 2, 2);
  };
  EXPECT_EQ(mix(whole.narrow(0, 6, 6)), "");
  at::Tensor other = whole.narrow(0, 6, 6).clone();
  other[4][0] = -7;
  EXPECT_EQ(mix(other), "output 0 of sample 3: 20 with the others, -7 without");
  // One row more than the samples have: whose rows are whose is open.
  signature.leaves[0].tensor.shape[0].constant = 1;
  EXPECT_EQ(mix(other), "");
}

TEST(SamplesThatMix, RoundingTellsNothing) {
  const at::Tensor values = at::randn({4, 300});
  EXPECT_EQ(mixOf(values, values.narrow(0, 2, 2).mul(1 + 1e-6), 2, 2), "");
  EXPECT_NE(mixOf(values, values.narrow(0, 2, 2).mul(1.01), 2, 2), "");
  const at::Tensor halves = values.to(at::kHalf), coarse = values.to(at::kBFloat16);
  EXPECT_EQ(mixOf(halves, halves.narrow(0, 2, 2).mul(1 + 1e-3), 2, 2), "");
  EXPECT_EQ(mixOf(coarse, coarse.narrow(0, 2, 2).mul(1 + 1e-2), 2, 2), "");
}

TEST(SamplesThatMix, OtherResultsAreLeftAlone) {
  const at::Tensor numbers = at::arange(4), values = at::randn({4, 2});
  EXPECT_EQ(mixOf(numbers, numbers.narrow(0, 0, 2), 2, 2), "") << "whole numbers";
  EXPECT_EQ(mixOf(values, values.narrow(0, 0, 2), 2, 2, {MergeRule::Kind::List, 0}), "");
  EXPECT_EQ(mixOf(values, at::randn({2, 5}), 2, 2), "") << "another shape";
  at::Tensor none = values.clone();
  none.fill_(NAN);
  EXPECT_EQ(mixOf(none, values.narrow(0, 2, 2), 2, 2), "");
  EXPECT_EQ(mixOf(at::empty({4, 0}), at::empty({2, 0}), 2, 2), "");
}

} // namespace
} // namespace pipec
