// How a batch is cut and its results become one, where sizes alone would say something else.
#include "ir/batch/discovery/GivenMerges.h"
#include "tests/support/Discover.h"
#include "tests/support/Matchers.h"

#include <gtest/gtest.h>

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Dict.h>
#include <ATen/core/List.h>

#include <cmath>
#include <map>

namespace pipec {
namespace {

using Equal = ResultCheck::Equal;

InputSpec input(std::string name) {
  InputSpec spec;
  spec.name = std::move(name);
  return spec;
}

struct Found {
  Signature signature;
  BatchDiscovery discovery;

  std::optional<int64_t> dim(size_t i) const { return signature.inputs[i].batchDim; }
  MergeRule rule(size_t leaf = 0) const { return signature.leaves[leaf].merge; }
  Equal equal(size_t leaf = 0) const { return discovery.results[leaf].equal; }
  /// Notes and warnings, one to a line.
  std::string notes() const {
    std::string text;
    for (const std::vector<std::string> &sentences : {discovery.notes, discovery.warnings})
      for (const std::string &sentence : sentences)
        text += sentence + "\n";
    return text;
  }
};

Found discoverLeaves(const Values &inputs, size_t leaves,
                     llvm::function_ref<Values(const Values &)> model,
                     DiscoveryOptions options = {}) {
  Found found;
  for (size_t i = 0; i < inputs.size(); ++i)
    found.signature.inputs.push_back(input(i == 0 ? "x" : i == 1 ? "y" : "z"));
  found.signature.leaves.resize(leaves);
  auto run = [&](std::vector<Values> calls) -> llvm::Expected<Values> {
    try {
      return model(calls.back());
    } catch (const std::exception &error) {
      return makeError(ExitCode::Usage, error.what());
    }
  };
  std::vector<bool> given = options.batchDimGiven;
  given.resize(inputs.size());
  found.discovery = take(discover(found.signature, inputs, given, run, std::move(options)));
  return found;
}

MergeRule rule(MergeRule::Kind kind, int64_t dim = 0) { return {kind, dim}; }
using Kind = MergeRule::Kind;

TEST(Discovery, AListWithAnEntryPerSampleIsJoined) {
  auto boxes = [](const at::Tensor &row) {
    c10::Dict<std::string, at::Tensor> dict;
    dict.insert("boxes", row.repeat({2, 1}));
    return dict;
  };
  const Found found = discoverLeaves({at::randn({4, 3})}, 3, [&](const Values &in) -> Values {
    const at::Tensor x = in[0].toTensor();
    c10::List<c10::Dict<std::string, at::Tensor>> dicts;
    c10::List<std::string> words;
    c10::List<at::Tensor> pairs;
    for (int64_t i = 0; i < x.size(0); ++i) {
      dicts.push_back(boxes(x[i]));
      words.push_back(x[i][0].item<float>() > 0 ? "dog" : "cat");
      pairs.push_back(x[i] * 2);
      pairs.push_back(x[i] * 3);
    }
    return {dicts, words, pairs};
  });
  for (size_t l = 0; l < 3; ++l) {
    EXPECT_EQ(found.rule(l), rule(Kind::Join)) << l;
    EXPECT_EQ(found.equal(l), Equal::Yes) << l;
  }
  EXPECT_EQ(found.notes(), "");
}

TEST(Discovery, ListsInsideOtherContainersAreJoined) {
  const Found found = discoverLeaves({at::randn({4, 3})}, 1, [&](const Values &in) -> Values {
    const at::Tensor x = in[0].toTensor();
    c10::List<at::Tensor> a, b;
    for (int64_t i = 0; i < x.size(0); ++i) {
      a.push_back(x[i]);
      b.push_back(x[i].sum());
    }
    c10::Dict<std::string, c10::List<at::Tensor>> dict;
    dict.insert("a", a);
    dict.insert("b", b);
    return {dict};
  });
  EXPECT_EQ(found.rule(), rule(Kind::Join, 1));
  EXPECT_EQ(found.equal(), Equal::Yes);
}

TEST(Discovery, AListBesideTheBatchMayHaveAnEntryPerSample) {
  using Names = std::vector<std::string>;
  using Numbers = std::vector<int64_t>;
  auto byIndex = [](const Values &in) -> Values { // reads entry i for row i
    const at::Tensor x = in[0].toTensor();
    std::vector<at::Tensor> rows;
    for (int64_t i = 0; i < x.size(0); ++i)
      rows.push_back(x[i] * static_cast<int64_t>(in[1].toListRef().at(i).toStringRef().size()));
    return {at::stack(rows)};
  };
  auto byEntry = [](const Values &in) -> Values { // reads row i for entry i
    std::vector<at::Tensor> rows;
    int64_t i = 0;
    for (const c10::IValue &length : in[1].toListRef())
      rows.push_back(in[0].toTensor()[i++] * length.toInt());
    return {rows};
  };
  auto asTensor = [](const Values &in) -> Values {
    return {in[0].toTensor() / at::tensor(in[1].toIntVector()).unsqueeze(1)};
  };
  auto shortest = [](const Values &in) -> Values { // as zip() does
    const at::Tensor x = in[0].toTensor();
    std::vector<at::Tensor> rows;
    const auto length = static_cast<int64_t>(in[1].toListRef().size());
    for (int64_t i = 0; i < std::min(x.size(0), length); ++i)
      rows.push_back(x[i] * in[1].toListRef()[i].toInt());
    return {rows};
  };
  // Eight samples are more than any trial has, so that entries never run out there.
  for (int64_t samples : {1, 4, 8}) {
    const at::Tensor x = at::randn({samples, 3});
    const c10::IValue names(Names(samples, "one")), numbers(Numbers(samples, 2));
    const std::string why = "y is a list with an entry per sample";
    EXPECT_NE(discoverLeaves({x, names}, 1, byIndex).notes().find(why), std::string::npos);
    EXPECT_NE(discoverLeaves({x, numbers}, 1, byEntry).notes().find(why), std::string::npos);
    EXPECT_NE(discoverLeaves({x, numbers}, 1, shortest).notes().find(why), std::string::npos);
    if (samples > 1) { // one number fits any batch
      EXPECT_NE(discoverLeaves({x, numbers}, 1, asTensor).notes().find(why), std::string::npos);
    }
  }
}

TEST(Discovery, AListAsLongAsTheBatchByChanceIsNone) {
  const c10::IValue sizes(std::vector<int64_t>{1, 2, 3, 6});
  auto pooled = [](const Values &in) -> Values { // any number of sizes
    std::vector<at::Tensor> parts;
    for (const c10::IValue &size : in[1].toListRef())
      parts.push_back(at::adaptive_avg_pool1d(in[0].toTensor(), {size.toInt()}));
    return {at::cat(parts, 2)};
  };
  auto padded = [](const Values &in) -> Values { // exactly four
    return {at::constant_pad_nd(in[0].toTensor(), in[1].toIntVector())};
  };
  for (int64_t samples : {1, 2, 4}) {
    const at::Tensor x = at::randn({samples, 3, 6});
    for (const Found &found :
         {discoverLeaves({x, sizes}, 1, pooled), discoverLeaves({x, sizes}, 1, padded)}) {
      EXPECT_EQ(found.dim(0), 0);
      EXPECT_EQ(found.notes(), "");
    }
  }
}

TEST(Discovery, AListOfFeaturesIsConcatenatedByElement) {
  const Found found = discoverLeaves({at::randn({2, 3})}, 1, [](const Values &in) -> Values {
    return {c10::List<at::Tensor>({in[0].toTensor(), in[0].toTensor().sum(1)})};
  });
  EXPECT_EQ(found.rule(), rule(Kind::Concat, 0)) << "two of them, as there are samples by chance";
}

TEST(Discovery, TheWayThatLeavesSamplesIndependentWins) {
  // Prototypes, as many as samples by coincidence.
  auto similarity = [](const Values &in) -> Values {
    return {at::relu(in[0].toTensor()).matmul(in[1].toTensor().t()).softmax(-1)};
  };
  const Found found = discoverLeaves({at::randn({4, 16}), at::randn({4, 16})}, 1, similarity);
  EXPECT_EQ(found.dim(0), 0);
  EXPECT_EQ(found.dim(1), std::nullopt);
  EXPECT_EQ(found.rule(), rule(Kind::Concat, 0));
  EXPECT_EQ(found.equal(), Equal::Yes);
  EXPECT_NE(found.notes().find("--batch-dim y=none"), std::string::npos) << found.notes();
  // The prototypes may stand first.
  const Found turned =
      discoverLeaves({at::randn({4, 16}), at::randn({4, 16})}, 1, [&](const Values &in) {
        return similarity({in[1], in[0]});
      });
  EXPECT_EQ(turned.dim(0), std::nullopt);
  EXPECT_EQ(turned.dim(1), 0);
  // Nearest prototypes: a number per sample, of any size of both. Four random rows do not always
  // show which argument has the samples.
  at::manual_seed(1);
  const Found nearest =
      discoverLeaves({at::randn({4, 16}), at::randn({4, 16})}, 1, [&](const Values &in) -> Values {
        return {at::cdist(in[0].toTensor(), in[1].toTensor()).amin(1)};
      });
  EXPECT_EQ(nearest.dim(0), 0);
  EXPECT_EQ(nearest.dim(1), std::nullopt);
}

TEST(Discovery, WhatIsIndependentBothWaysIsCutAlongTheFirst) {
  const Found found =
      discoverLeaves({at::randn({4, 16}), at::randn({4, 16})}, 1, [](const Values &in) -> Values {
        return {in[0].toTensor().matmul(in[1].toTensor().t())};
      });
  EXPECT_EQ(found.dim(0), 0);
  EXPECT_EQ(found.dim(1), std::nullopt);
  const Found both =
      discoverLeaves({at::randn({4, 16}), at::randn({4, 16})}, 1, [](const Values &in) -> Values {
        return {in[0].toTensor() * in[1].toTensor()};
      });
  EXPECT_EQ(both.dim(1), 0);
  EXPECT_EQ(both.notes(), "");
}

/// The generator of a GAN normalises over the batch: samples of x affect each other.
Values lossOfGan(const Values &in) {
  const at::Tensor x = in[0].toTensor(), centred = x - x.mean(0),
                   normed = centred / (centred.square().mean(0) + 0.1).sqrt();
  return {at::softplus(normed.sum(1)).mean() + at::softplus(in[1].toTensor()).mean()};
}

TEST(Discovery, SamplesThatAffectEachOtherAreCutNevertheless) {
  DiscoveryOptions norms;
  norms.norms = "g.1";
  for (const DiscoveryOptions &options : {norms, DiscoveryOptions()}) {
    for (const int64_t samples : {4, 6, 16}) {
      const Found found =
          discoverLeaves({at::randn({samples, 6}), at::randn({samples, 3})}, 1, lossOfGan, options);
      EXPECT_EQ(found.dim(0), 0) << samples;
      EXPECT_EQ(found.dim(1), 0) << samples;
      EXPECT_EQ(found.notes().find("the whole of x and"), std::string::npos) << found.notes();
      const bool warns = found.notes().find("pass --batch-dim x=none") != std::string::npos;
      EXPECT_EQ(warns, options.norms.empty()) << found.notes();
    }
  }
  DiscoveryOptions parts = norms; // the example is the first of four micro-batches
  parts.microBatches = 4;
  const Found cut = discoverLeaves({at::randn({16, 6}), at::randn({16, 3})}, 1, lossOfGan, parts);
  EXPECT_EQ(cut.dim(0), 0);
  EXPECT_EQ(cut.dim(1), 0);
}

/// A norm elsewhere in the model is no reason to cut what each sample is compared with.
TEST(Discovery, ATableBehindANormStaysWhole) {
  at::manual_seed(1); // the trial looks at numbers: some examples show less than others
  DiscoveryOptions options;
  options.norms = "table.1";
  const Found found = discoverLeaves(
      {at::randn({16, 6}), at::randn({16, 6})}, 1,
      [](const Values &in) -> Values {
        const at::Tensor table = in[1].toTensor(), centred = table - table.mean(0),
                         normed = centred / (centred.square().mean(0) + 0.1).sqrt();
        return {in[0].toTensor().matmul(normed.t()).softmax(1).square().mean()};
      },
      options);
  EXPECT_EQ(found.dim(0), 0);
  EXPECT_EQ(found.dim(1), std::nullopt);
  EXPECT_NE(found.notes().find("--batch-dim y=none confirms it"), std::string::npos)
      << found.notes();
}

TEST(Discovery, AWholeTableOfALossIsAWarning) {
  at::manual_seed(1); // the trial looks at numbers: some examples show less than others
  // With so many samples, chance alone does not put the nearest row of each into its micro-batch.
  const Found found =
      discoverLeaves({at::randn({16, 6}), at::randn({16, 6})}, 1, [](const Values &in) -> Values {
        return {at::cdist(in[0].toTensor(), in[1].toTensor()).amin(1).mean()};
      });
  EXPECT_EQ(found.dim(0), 0);
  EXPECT_EQ(found.dim(1), std::nullopt);
  ASSERT_EQ(found.discovery.warnings.size(), 1u) << found.notes();
  EXPECT_NE(found.discovery.warnings[0].find("--batch-dim y=none confirms it"), std::string::npos);
  // Rows of a result show it without doubt.
  const Found rows =
      discoverLeaves({at::randn({4, 6}), at::randn({4, 6})}, 1, [](const Values &in) -> Values {
        return {in[0].toTensor() + in[1].toTensor().mean(0)};
      });
  EXPECT_EQ(rows.dim(0), 0);
  EXPECT_EQ(rows.dim(1), std::nullopt);
  EXPECT_TRUE(rows.discovery.warnings.empty()) << rows.notes();
}

/// The states after each of x[steps, samples, ...].
at::Tensor recurrentStates(const at::Tensor &x) {
  std::vector<at::Tensor> states;
  for (const at::Tensor &step : x.to(at::kFloat).unbind(0))
    states.push_back((states.empty() ? step : step + states.back() * 0.5).tanh());
  return at::stack(states);
}

TEST(Discovery, StepsOfALossAffectEachOther) {
  at::manual_seed(1); // the trial looks at numbers: some examples show less than others
  auto last = [](const Values &in) -> Values {
    const at::Tensor state = recurrentStates(in[0].toTensor()).select(0, -1).sum(1);
    TORCH_CHECK(state.size(0) == in[1].toTensor().size(0), "expected a label per sample");
    return {(state - in[1].toTensor()).square().mean()};
  };
  auto all = [](const Values &in) -> Values {
    const at::Tensor states = recurrentStates(in[0].toTensor() * 0.2), y = in[1].toTensor();
    TORCH_CHECK(states.sizes() == y.sizes(), "expected a label per step");
    return {(states - y.to(at::kFloat)).square().mean()};
  };
  for (const int64_t steps : {8, 3}) {
    const Found found = discoverLeaves({at::randn({steps, 3, 4}), at::randn({3})}, 1, last);
    EXPECT_EQ(found.dim(0), 1) << steps;
    EXPECT_EQ(found.dim(1), 0) << steps;
    EXPECT_EQ(found.equal(), Equal::Yes) << steps;
    EXPECT_NE(found.notes().find("--batch-dim x=1 confirms it"), std::string::npos);
  }
  for (const int64_t steps : {8, 4}) {
    const Found found = discoverLeaves(
        {at::randint(0, 9, {steps, 4}, at::kLong), at::randint(0, 9, {steps, 4}, at::kLong)}, 1,
        all);
    EXPECT_EQ(found.dim(0), 1) << steps;
    EXPECT_EQ(found.dim(1), 1) << steps;
  }
  // Steps that do not affect each other may be samples as well: convention chooses.
  const Found apart =
      discoverLeaves({at::randn({5, 6, 4}), at::randn({5, 6})}, 1, [](const Values &in) -> Values {
        const at::Tensor weight = in[1].toTensor().square(),
                         each = in[0].toTensor().square().sum(2);
        return {(each * weight).sum() / weight.sum()};
      });
  EXPECT_EQ(apart.dim(0), 0);
  EXPECT_EQ(apart.dim(1), 0);
}

TEST(Discovery, TimeMayComeFirst) {
  // A running sum over the first dimension.
  const Found found = discoverLeaves(
      {at::randn({7, 4, 3}), at::randn({2, 4, 3})}, 1, [](const Values &in) -> Values {
        return {in[0].toTensor().cumsum(0) + in[1].toTensor().sum(0)};
      });
  EXPECT_EQ(found.dim(0), 1);
  EXPECT_EQ(found.dim(1), 1);
  EXPECT_EQ(found.rule(), rule(Kind::Concat, 1));
  EXPECT_NE(found.notes().find("--batch-dim x=1,y=1"), std::string::npos) << found.notes();
}

TEST(Discovery, ADimensionThatCutsMoreIsNamed) {
  // Attention of x[steps, samples, width] to y[other steps, samples, width].
  auto attention = [](const Values &in) -> Values {
    const at::Tensor x = in[0].toTensor().transpose(0, 1), y = in[1].toTensor().transpose(0, 1);
    return {x.matmul(y.transpose(1, 2)).softmax(-1).matmul(y).transpose(0, 1)};
  };
  const Found steps = discoverLeaves({at::randn({6, 2, 4}), at::randn({7, 2, 4})}, 1, attention);
  EXPECT_EQ(steps.dim(0), 0) << "as convention chooses";
  EXPECT_EQ(steps.notes(), "every micro-batch gets the whole of y and a part of x; cutting "
                           "dimension 1 of x and y keeps samples independent, too: if that is the "
                           "batch, pass --batch-dim x=1,y=1\n");
  // Positions for every sample.
  const Found positions = discoverLeaves(
      {at::randn({6, 2, 4}), at::randn({1, 2, 4})}, 1,
      [](const Values &in) -> Values { return {in[0].toTensor() + in[1].toTensor()}; });
  EXPECT_EQ(positions.notes(), "");
}

TEST(Discovery, AStateMayHaveItsSamplesAlongALaterDimension) {
  // As a recurrent layer whose input has the batch first, and whose state has the layers first.
  auto recurrent = [](const Values &in) -> Values {
    const at::Tensor x = in[0].toTensor(), state = in[1].toTensor();
    TORCH_CHECK(state.size(0) == 1 && state.size(1) == x.size(0), "expected a state per sample");
    const at::Tensor steps = x.cumsum(1) + state.transpose(0, 1);
    return {steps, steps.slice(1, -1).transpose(0, 1)};
  };
  for (const int64_t samples : {1, 2, 4}) {
    const Found found =
        discoverLeaves({at::randn({samples, 6, 8}), at::randn({1, samples, 8})}, 2, recurrent);
    EXPECT_TRUE(found.signature.batchSymbolic) << samples;
    EXPECT_EQ(found.dim(0), 0) << samples;
    EXPECT_EQ(found.dim(1), 1) << samples;
    EXPECT_EQ(found.rule(0), rule(Kind::Concat, 0)) << samples;
    EXPECT_EQ(found.rule(1), rule(Kind::Concat, 1)) << samples;
    EXPECT_NE(found.notes().find("--batch-dim y=1"), std::string::npos) << found.notes();
  }
  DiscoveryOptions options; // the example is the first micro-batch of three
  options.microBatches = 3;
  const Found cut =
      discoverLeaves({at::randn({7, 6, 8}), at::randn({1, 7, 8})}, 2, recurrent, options);
  EXPECT_EQ(cut.dim(0), 0);
  EXPECT_EQ(cut.dim(1), 1);
}

TEST(Discovery, SuggestsDimensionsThatATrialConfirms) {
  auto withState = [](const Values &in) -> Values {
    const at::Tensor x = in[0].toTensor(), state = in[1].toTensor();
    TORCH_CHECK(state.size(1) == x.size(0), "expected a state per sample");
    return {x.cumsum(1) + state.transpose(0, 1)};
  };
  DiscoveryOptions whole; // the user says that y has no batch
  whole.batchDimGiven = {false, true};
  const Values inputs = {at::randn({4, 6, 8}), at::randn({1, 4, 8})};
  EXPECT_EQ(discoverLeaves(inputs, 1, withState, whole).discovery.suggestion, "y=1");
  EXPECT_EQ(discoverLeaves(inputs, 1, withState).discovery.suggestion, "") << "it is the choice";
  // Two rows of y per sample: its dimension 1 has the size of the batch by coincidence.
  for (const DiscoveryOptions &options : {DiscoveryOptions(), whole}) {
    const Found rows = discoverLeaves(
        {at::randn({4, 4}), at::randn({8, 4})}, 1,
        [](const Values &in) -> Values {
          return {in[0].toTensor() + in[1].toTensor().view({-1, 2, 4}).sum(1)};
        },
        options);
    EXPECT_FALSE(rows.signature.batchSymbolic);
    EXPECT_EQ(rows.discovery.suggestion, "");
  }
}

TEST(Discovery, AFixedSizeStaysFixed) {
  const Found found =
      discoverLeaves({at::randn({4, 6, 3}), at::randn({6, 4})}, 1, [](const Values &in) -> Values {
        return {in[0].toTensor().view({4, 18}).sum(1, true) + in[1].toTensor().sum()};
      });
  EXPECT_FALSE(found.signature.batchSymbolic);
  EXPECT_EQ(found.dim(0), 0);
  EXPECT_EQ(found.dim(1), std::nullopt);
}

TEST(Discovery, AWayThatCannotWinIsRefusedOnce) {
  // Samples affect each other, so other ways are tried: rows alone, and factors alone.
  std::map<std::pair<int64_t, int64_t>, size_t> refused; // rows and factors, number of calls
  const Found found =
      discoverLeaves({at::randn({2, 3}), at::randn({2})}, 1, [&](const Values &in) -> Values {
        const at::Tensor x = in[0].toTensor(), y = in[1].toTensor();
        if (x.size(0) != y.size(0)) {
          ++refused[{x.size(0), y.size(0)}];
          throw std::runtime_error("expected as many factors as rows");
        }
        return {x.sub(x.mean(0)).mul(y.unsqueeze(1))};
      });
  EXPECT_EQ(found.dim(0), 0);
  EXPECT_EQ(found.dim(1), 0);
  EXPECT_EQ(found.equal(), Equal::No);
  const std::map<std::pair<int64_t, int64_t>, size_t> once = {{{5, 2}, 1}, {{2, 5}, 1}};
  EXPECT_EQ(refused, once);
}

TEST(Discovery, OfDependentWaysTheOneThatMergesEveryResultWins) {
  // A scale over all of the input, as in dynamic quantisation; steps come first.
  const Found found = discoverLeaves({at::randn({6, 2, 3})}, 2, [](const Values &in) -> Values {
    const at::Tensor x = in[0].toTensor(), scaled = x / x.abs().amax();
    const at::Tensor steps = scaled.cumsum(0);
    return {steps, at::tanh(steps.slice(0, -1))};
  });
  EXPECT_EQ(found.dim(0), 1);
  EXPECT_EQ(found.rule(0), rule(Kind::Concat, 1));
  EXPECT_EQ(found.rule(1), rule(Kind::Concat, 1));
  EXPECT_NE(found.notes().find("the choice that merges every result; --batch-dim x=1"),
            std::string::npos)
      << found.notes();
  EXPECT_NE(found.notes().find("affect each other"), std::string::npos) << found.notes();
  // Both ways merge every result: convention decides.
  const Found first = discoverLeaves({at::randn({6, 2, 3})}, 1, [](const Values &in) -> Values {
    return {in[0].toTensor() / in[0].toTensor().abs().amax()};
  });
  EXPECT_EQ(first.dim(0), 0);
}

TEST(Discovery, ReductionsAreRecognised) {
  const Found found = discoverLeaves({at::randn({4, 3})}, 7, [](const Values &in) -> Values {
    const at::Tensor x = in[0].toTensor();
    return {
        x.sum(), x.mean(), x.sum(0), x.mean(0), x.size(0), x.gt(0).sum(), x.mean().item<double>()};
  });
  const Kind expected[] = {Kind::Sum, Kind::Mean, Kind::Sum, Kind::Mean,
                           Kind::Sum, Kind::Sum,  Kind::Mean};
  for (size_t l = 0; l < 7; ++l) {
    EXPECT_EQ(found.rule(l), rule(expected[l])) << l;
    EXPECT_EQ(found.equal(l), Equal::Yes) << l << found.discovery.results[l].reason;
  }
  EXPECT_EQ(found.notes(), "");
}

TEST(Discovery, NothingFitsSeveralRules) {
  const Found found = discoverLeaves({at::rand({4, 3})}, 4, [](const Values &in) -> Values {
    const at::Tensor bad = in[0].toTensor().gt(100).sum();
    return {bad, bad.item<int64_t>(), bad.to(at::kFloat), std::vector<std::string>()};
  });
  const Kind expected[] = {Kind::Sum, Kind::Sum, Kind::Mean, Kind::Join};
  for (size_t l = 0; l < 4; ++l) {
    EXPECT_EQ(found.rule(l), rule(expected[l])) << l;
    EXPECT_EQ(found.equal(l), Equal::NotTried) << l;
  }
  EXPECT_NE(found.notes().find("--merge 0=sum confirms it, --merge 0=RULE"), std::string::npos)
      << found.notes();
  EXPECT_EQ(found.discovery.warnings.size(), 4) << found.notes();
}

TEST(Discovery, OtherValuesDecideWhatIsZero) {
  at::manual_seed(1);
  const at::Tensor x = at::randn({4, 7}).clamp(-2, 2);
  const Found found = discoverLeaves({x}, 5, [](const Values &in) -> Values {
    const at::Tensor over = in[0].toTensor().abs().sub(3).clamp_min(0);
    return {over.sum(), over.mean(), over.sum().item<double>(), over.gt(0).sum(), over.amax()};
  });
  const Kind expected[] = {Kind::Sum, Kind::Mean, Kind::Sum, Kind::Sum, Kind::Mean};
  for (size_t l = 0; l < 5; ++l) {
    EXPECT_EQ(found.rule(l), rule(expected[l])) << l;
    EXPECT_EQ(found.equal(l), l == 4 ? Equal::No : Equal::Yes) << l << found.notes();
  }
}

TEST(Discovery, OtherValuesDecideWhatIsNotFinite) {
  at::manual_seed(1);
  for (double last : {0.0, std::nan("")}) {
    at::Tensor x = at::randn({4, 7});
    x[3].fill_(last);
    const Found found = discoverLeaves({x}, 3, [](const Values &in) -> Values {
      const at::Tensor logs = in[0].toTensor().abs().log();
      return {logs.sum(), logs.mean(), at::full({}, -INFINITY)};
    });
    EXPECT_EQ(found.rule(0), rule(Kind::Sum)) << last;
    EXPECT_EQ(found.rule(1), rule(Kind::Mean)) << last;
    EXPECT_EQ(found.equal(0), Equal::Yes) << found.notes();
    EXPECT_EQ(found.equal(1), Equal::Yes) << found.notes();
    EXPECT_EQ(found.equal(2), Equal::NotTried);
  }
}

TEST(Discovery, ABatchBeyondANumberInTheModelIsCompared) {
  DiscoveryOptions options;
  options.microBatches = 3;
  const at::Tensor x = at::randn({240, 3});
  auto model = [](const Values &in) -> Values {
    return {in[0].toTensor() * (in[0].toTensor().size(0) > 100 ? 2 : 1)};
  };
  EXPECT_EQ(discoverLeaves({x}, 1, model, options).equal(), Equal::Yes);
  options.sizeConstants = {2, 100};
  EXPECT_EQ(discoverLeaves({x}, 1, model, options).equal(), Equal::No);
  options.writesState = [] { return true; };
  EXPECT_EQ(discoverLeaves({x}, 1, model, options).equal(), Equal::No);
  options.writesState = [] { return false; };
  options.sizeConstants = {2, 240};
  EXPECT_EQ(discoverLeaves({x}, 1, model, options).equal(), Equal::Yes);
}

TEST(Discovery, EqualLabelsShowNoRule) {
  at::manual_seed(1);
  const at::Tensor x = at::randn({4, 3});
  auto overlap = [](const Values &in) -> Values {
    const at::Tensor y = in[1].toTensor(), chosen = in[0].toTensor().select(1, 0).gt(0);
    const at::Tensor both = chosen.logical_and(y.gt(0)).sum().to(at::kFloat);
    return {in[0], both.div(chosen.logical_or(y.gt(0)).sum())};
  };
  const Found ratio = discoverLeaves({x, at::ones({4})}, 2, overlap);
  EXPECT_EQ(ratio.equal(1), Equal::No) << ratio.notes();
  EXPECT_EQ(ratio.rule(1), rule(Kind::Mean));
  auto largest = [](const Values &in) -> Values {
    const at::Tensor chosen = in[0].toTensor() * in[1].toTensor().unsqueeze(1);
    return {chosen, chosen.abs().amax()};
  };
  EXPECT_EQ(discoverLeaves({x, at::zeros({4}, at::kBool)}, 2, largest).equal(1), Equal::No);
  auto loss = [](const Values &in) -> Values {
    return {in[0].toTensor().select(1, 0).sub(in[1].toTensor()).square().mean()};
  };
  const Found mean = discoverLeaves({x, at::ones({4})}, 1, loss);
  EXPECT_EQ(mean.rule(), rule(Kind::Mean));
  EXPECT_EQ(mean.equal(), Equal::Yes) << mean.notes();
}

TEST(Discovery, StatisticsOfWholeLabelsAreTheSameInAll) {
  auto model = [](const Values &in) -> Values {
    const at::Tensor y = in[1].toTensor();
    return {in[0].toTensor() * 2, y.max().sub(y.min()), y.diff().ne(0).any()};
  };
  Signature signature;
  signature.inputs = {input("x"), input("y")};
  signature.inputs[0].batchDim = 0;
  signature.leaves.resize(3);
  take(discover(
      signature, {at::randn({4, 3}), at::ones({4}, at::kLong)}, {true, true},
      [&](std::vector<Values> calls) -> llvm::Expected<Values> { return model(calls.back()); }));
  EXPECT_EQ(signature.leaves[1].merge, rule(Kind::Same));
}

/// The largest number of a sample, and a rounded mean.
Values largestAndMean(const Values &in) {
  const at::Tensor n = in[1].toTensor();
  return {in[0].toTensor() * n.unsqueeze(1), n.max(), n.to(at::kFloat).mean().to(at::kLong)};
}

TEST(Discovery, AMaximumThatAddsUpIsNone) {
  for (std::vector<int64_t> numbers : {std::vector<int64_t>{0, 0, 0, 1, 2, 2}, {0, 5}, {5, 0, 0}}) {
    const Found found =
        discoverLeaves({at::rand({static_cast<int64_t>(numbers.size()), 3}), at::tensor(numbers)},
                       3, largestAndMean);
    EXPECT_EQ(found.rule(), rule(Kind::Concat));
    EXPECT_EQ(found.rule(1), rule(Kind::List)) << numbers.size();
    EXPECT_NE(found.notes().find("--merge 1="), std::string::npos) << found.notes();
    EXPECT_NE(found.rule(2), rule(Kind::Sum)) << numbers.size();
  }
}

TEST(Discovery, ZerosOfTheFirstMicroBatchAreNotBelieved) {
  DiscoveryOptions options;
  options.microBatches = 3;
  const at::Tensor x = at::rand({6, 3});
  const std::vector<int64_t> low = {0, 0, 0, 1, 2, 2}, high = {0, 0, 0, 0, 1, 2};
  const Found differs = discoverLeaves({x, at::tensor(low)}, 3, largestAndMean, options);
  EXPECT_EQ(differs.rule(1), rule(Kind::List)) << "0 + 1 + 2 of micro-batches, 2 of the batch";
  EXPECT_NE(differs.notes().find("--merge 1="), std::string::npos) << differs.notes();
  auto largest = [](const Values &in) -> Values { return {in[0], in[1].toTensor().max()}; };
  const Values fitting = {x, at::tensor(high)};
  const Found whole = discoverLeaves(fitting, 2, largest, options);
  EXPECT_EQ(whole.equal(1), Equal::Yes) << "0 + 0 + 2";
  EXPECT_EQ(whole.rule(1), rule(Kind::Same)) << "other labels contradict the sum: y stays whole";
  EXPECT_EQ(whole.dim(1), std::nullopt);
  const Found same = discoverLeaves({x, at::tensor(std::vector<int64_t>{1, 1, 1, 1, 2, 2})}, 3,
                                    largestAndMean, options);
  EXPECT_EQ(same.rule(1), rule(Kind::List)) << "1, 1 and 2";
  options.merges = {{"1", rule(Kind::Sum)}};
  EXPECT_EQ(discoverLeaves({x, at::tensor(low)}, 3, largestAndMean, options).rule(1),
            rule(Kind::Sum));
}

TEST(Discovery, AllSamplesDecideWhatIsCutAsInACompile) {
  // Only the whole of y gives the largest of its numbers.
  auto largest = [](const Values &in) -> Values {
    return {in[0].toTensor() * 2, in[1].toTensor().max()};
  };
  const Values inputs = {at::rand({6, 3}), at::tensor(std::vector<int64_t>{5, 5, 0, 0, 2, 1})};
  DiscoveryOptions options;
  for (int64_t microBatches : {1, 3}) {
    options.microBatches = microBatches;
    const Found found = discoverLeaves(inputs, 2, largest, options);
    EXPECT_EQ(found.dim(0), 0) << microBatches;
    EXPECT_EQ(found.dim(1), std::nullopt) << microBatches;
    EXPECT_EQ(found.rule(1), rule(Kind::Same)) << microBatches;
    EXPECT_NE(found.notes().find("--batch-dim y=none confirms it"), std::string::npos);
  }
}

TEST(Discovery, NearlyAMeanIsNone) {
  const Found found = discoverLeaves({at::rand({4, 8})}, 1, [](const Values &in) -> Values {
    const at::Tensor load = in[0].toTensor().softmax(-1).mean(0); // a router's balance
    return {load.mul(load).sum()};
  });
  EXPECT_EQ(found.equal(), Equal::No) << "it differs by less than a per cent";
}

TEST(Discovery, WhatMicroBatchesDoNotGiveIsSaid) {
  const Found found = discoverLeaves({at::randn({4, 3})}, 4, [](const Values &in) -> Values {
    const at::Tensor x = in[0].toTensor(), logits = x.matmul(x.t());
    return {x.max(), at::cross_entropy_loss(logits, at::arange(x.size(0))), logits, x * 2};
  });
  EXPECT_EQ(found.rule(0), rule(Kind::Mean));
  EXPECT_EQ(found.rule(1), rule(Kind::Mean));
  EXPECT_EQ(found.rule(2), rule(Kind::List));
  for (size_t l = 0; l < 3; ++l) {
    EXPECT_EQ(found.equal(l), Equal::No);
    EXPECT_NE(found.notes().find(fmt::format("--merge {}=", l)), std::string::npos)
        << found.notes();
  }
  EXPECT_NE(found.discovery.results[0].reason.find("for the whole batch"), std::string::npos);
  EXPECT_EQ(found.equal(3), Equal::Yes);
}

TEST(Discovery, SamplesOfOneExampleAreMadeToDiffer) {
  const Found found = discoverLeaves({at::randn({1, 3})}, 2, [](const Values &in) -> Values {
    const at::Tensor x = in[0].toTensor();
    return {x.sub(x.mean(0)), x.max()};
  });
  EXPECT_EQ(found.equal(0), Equal::No);
  EXPECT_EQ(found.equal(1), Equal::No);
  EXPECT_NE(found.notes().find("samples in a micro-batch affect each other"), std::string::npos);
}

TEST(Discovery, SamplesThatAffectEachOtherAreNamed) {
  const Found found = discoverLeaves({at::randn({4, 3})}, 1, [](const Values &in) -> Values {
    return {in[0].toTensor().sub(in[0].toTensor().mean(0))};
  });
  EXPECT_EQ(found.dim(0), 0);
  EXPECT_NE(found.notes().find("--batch-dim x=K"), std::string::npos) << found.notes();
  // Whole numbers are compared with the same numbers of samples.
  const Found ranks = discoverLeaves({at::randn({4, 3})}, 1, [](const Values &in) -> Values {
    return {in[0].toTensor().argsort(int64_t(0)).argsort(int64_t(0))};
  });
  EXPECT_NE(ranks.notes().find("affect each other"), std::string::npos) << ranks.notes();
}

/// A change of one sample changes the draws of all others; that is no dependence.
TEST(Discovery, DrawsThatFollowValuesAreNoDependence) {
  auto noisy = [](const Values &in) -> Values {
    at::manual_seed(1);
    return {at::rrelu(in[0].toTensor(), 0.1, 0.9, /*training=*/true)};
  };
  DiscoveryOptions options;
  options.drawsRandom = [] { return true; };
  options.valueDependentDraw = [] { return std::string("aten::rrelu in act"); };
  const Found found = discoverLeaves({at::randn({4, 64})}, 1, noisy, options);
  EXPECT_TRUE(found.discovery.warnings.empty()) << found.notes();
  EXPECT_NE(
      found.notes().find("random numbers that aten::rrelu in act draws depends on the values"),
      std::string::npos)
      << found.notes();
}

TEST(Discovery, StateIsFollowedOverMicroBatches) {
  Signature signature;
  signature.inputs = {input("x")};
  signature.leaves.resize(2);
  DiscoveryOptions options;
  options.writesState = [] { return true; };
  auto run = [](std::vector<Values> calls) -> llvm::Expected<Values> {
    const auto count = static_cast<int64_t>(calls.size());
    return Values{calls.back()[0].toTensor() + count, count};
  };
  const BatchDiscovery found =
      take(discover(signature, {at::randn({4, 2})}, {false}, run, options));
  EXPECT_EQ(found.results[0].equal, Equal::No);
  EXPECT_EQ(found.results[1].equal, Equal::No);
  ASSERT_EQ(found.warnings.size(), 2u);
  EXPECT_NE(found.warnings[0].find("result 0 depends on the model's state"), std::string::npos);
}

/// A loss may differ beside state, because of it, or for both reasons. With dropout, runs without
/// it tell.
TEST(Discovery, StateIsTheReasonOnlyIfItHasAPart) {
  auto meanOfSome = [](const at::Tensor &x) { // the elements that count
    const at::Tensor counts = x.gt(1).to(at::kFloat);
    return (x * counts).sum() / counts.sum().clamp_min(1);
  };
  auto beside = [&](const std::vector<Values> &calls) -> Values { // a counter that nothing reads
    return {meanOfSome(calls.back()[0].toTensor())};
  };
  auto because = [&](const std::vector<Values> &calls) -> Values {
    return {calls.back()[0].toTensor().mean() * std::pow(0.7, calls.size())};
  };
  auto both = [&](const std::vector<Values> &calls) -> Values {
    return {meanOfSome(calls.back()[0].toTensor()) * std::pow(0.7, calls.size())};
  };
  DiscoveryOptions options;
  options.trains = true;
  options.writesState = [] { return true; };
  const at::Tensor x = at::arange(15).reshape({5, 3}).div(7);
  auto expectReasons = [&](llvm::function_ref<Values(const std::vector<Values> &)> model,
                           bool isState, bool isOther) {
    Signature signature;
    signature.inputs = {input("x")};
    signature.leaves.resize(1);
    auto run = [&](std::vector<Values> calls) -> llvm::Expected<Values> { return model(calls); };
    const BatchDiscovery found = take(discover(signature, {x}, {false}, run, options));
    EXPECT_EQ(signature.leaves[0].merge, rule(Kind::Mean));
    ASSERT_EQ(found.warnings.size(), 1u);
    const llvm::StringRef warning = found.warnings.front();
    EXPECT_EQ(warning.contains("the model writes state, so the loss of a sample depends"), isState)
        << found.warnings.front();
    EXPECT_EQ(warning.contains("return (sum, count)"), isOther) << found.warnings.front();
    EXPECT_EQ(warning.contains("there may be another reason, too: a loss over the elements"),
              isState && isOther)
        << found.warnings.front();
  };
  expectReasons(beside, false, true);
  expectReasons(because, true, false);
  expectReasons(both, true, true);
  options.drawsRandom = [] { return true; };
  auto calm = [&](std::vector<std::vector<Values>> experiments, const RunRules &) {
    std::vector<llvm::Expected<Values>> all;
    for (const std::vector<Values> &calls : experiments) {
      Values results;
      for (const Values &call : calls)
        results.push_back(meanOfSome(call[0].toTensor()));
      all.push_back(std::move(results));
    }
    return all;
  };
  options.withoutDropout = calm;
  auto drawn = [&](const std::vector<Values> &calls) -> Values {
    return {meanOfSome(calls.back()[0].toTensor()) * at::rand({}).mul(0.01).add(1)};
  };
  expectReasons(drawn, false, true);
}

TEST(Discovery, RandomNumbersAreNotCompared) {
  DiscoveryOptions options;
  options.drawsRandom = [] { return true; };
  const Found found = discoverLeaves(
      {at::rand({4, 30}).add(1)}, 3,
      [](const Values &in) -> Values {
        const at::Tensor x = in[0].toTensor() * at::rand_like(in[0].toTensor()).mul(0.1).add(1);
        return {x, x.sum(), x.mean()};
      },
      options);
  EXPECT_EQ(found.discovery.results[0].reason, "the model draws random numbers");
  EXPECT_EQ(found.rule(1), rule(Kind::Sum)) << "twice as much of twice as many samples";
  EXPECT_EQ(found.rule(2), rule(Kind::Mean));
}

TEST(Discovery, LossesAreComparedWithDropoutOff) {
  auto losses = [](const at::Tensor &x, const at::Tensor &dropped,
                   const at::Tensor &far) -> Values {
    const at::Tensor weight = x * x;
    return {(weight * dropped).sum() / weight.sum(), dropped.mean(), dropped.sum(),
            dropped.mean() * far};
  };
  DiscoveryOptions options;
  options.drawsRandom = [] { return true; };
  options.trains = true;
  auto calm = [&](std::vector<std::vector<Values>> experiments, const RunRules &) {
    std::vector<llvm::Expected<Values>> all;
    for (const std::vector<Values> &calls : experiments) {
      Values results;
      for (const Values &call : calls)
        results.push_back(c10::ivalue::Tuple::create(
            losses(call[0].toTensor(), call[0].toTensor(), at::ones({}))));
      all.push_back(std::move(results));
    }
    return all;
  };
  auto drawn = [&](const Values &in) {
    const at::Tensor x = in[0].toTensor();
    return losses(x, x * at::rand_like(x).mul(0.1).add(1), at::rand({}).mul(20).exp());
  };
  const at::Tensor x = at::arange(15).reshape({5, 3}).div(15).add(1);
  EXPECT_EQ(discoverLeaves({x}, 4, drawn, options).equal(1), Equal::NotTried);

  options.withoutDropout = calm;
  const Found found = discoverLeaves({x}, 4, drawn, options);
  EXPECT_EQ(found.rule(0), rule(Kind::Mean));
  EXPECT_EQ(found.equal(0), Equal::No);
  EXPECT_EQ(found.rule(1), rule(Kind::Mean));
  EXPECT_EQ(found.discovery.results[1], (ResultCheck{Equal::Yes, "with dropout off"}));
  EXPECT_EQ(found.rule(2), rule(Kind::Sum));
  EXPECT_EQ(found.equal(2), Equal::Yes);
  EXPECT_EQ(found.rule(3), rule(Kind::Mean));
  EXPECT_EQ(found.equal(3), Equal::Yes);
  EXPECT_EQ(found.discovery.shown, std::vector<bool>({false, false, true, false}));
  ASSERT_EQ(found.discovery.warnings.size(), 1u) << found.notes();
  EXPECT_NE(found.discovery.warnings[0].find("the mean over micro-batches, which differs from the "
                                             "whole batch (with dropout off: 1."),
            std::string::npos)
      << found.notes();
}

TEST(Discovery, GivenRulesWin) {
  auto model = [](const Values &in) -> Values {
    const at::Tensor x = in[0].toTensor();
    return {x.max(), x.matmul(x.t())};
  };
  DiscoveryOptions options;
  options.merges = {{"0", rule(Kind::List)}, {"1", rule(Kind::List)}};
  const Found found = discoverLeaves({at::randn({4, 3})}, 2, model, options);
  EXPECT_EQ(found.rule(0), rule(Kind::List));
  EXPECT_EQ(found.notes(), "") << "who says it need not be told";

  Signature signature = found.signature;
  EXPECT_EQ(describe(giveMerges(signature, {{"7", rule(Kind::Same)}})).message,
            "--merge: expected a result of the model (0, 1), got 7");
  EXPECT_EQ(describe(giveMerges(signature, {{"0", rule(Kind::Concat, 3)}})).message,
            "--merge 0=concat:3: concat is for tensors with dimensions, got a single number");
}

/// The error of the example is the model's own, whatever the other experiments gave.
TEST(Discovery, AnExampleThatFailsIsTheError) {
  Signature signature;
  signature.inputs = {input("x")};
  signature.leaves.resize(1);
  auto run = [&](std::vector<Values> calls) -> llvm::Expected<Values> {
    if (calls.back()[0].toTensor().size(0) == 4)
      return makeError(ExitCode::Usage, "no batches of 4");
    return Values{calls.back()[0]};
  };
  const ErrorText text =
      describe(discover(signature, {at::randn({4, 3})}, {false}, run).takeError());
  EXPECT_EQ(text.code, ExitCode::Usage);
  EXPECT_NE(text.message.find("no batches of 4"), std::string::npos) << text.message;
}

TEST(Discovery, ASumThatTooFewSizesConfirmIsSaid) {
  const Found found =
      discoverLeaves({at::arange(6).view({2, 3}).sub(2.5)}, 2, [](const Values &in) -> Values {
        const at::Tensor x = in[0].toTensor();
        if (x.size(0) > 5)
          throw std::runtime_error("at most 5 samples");
        return {x * 2, x.gt(0).sum()};
      });
  EXPECT_EQ(found.rule(1), rule(Kind::Sum));
  EXPECT_EQ(found.equal(1), Equal::NotTried);
  EXPECT_NE(found.notes().find("batches of 6 and 4 do not run: at most 5 samples"),
            std::string::npos)
      << found.notes();
}

TEST(Discovery, ASumOverTheValuesOfTheExampleProvesNothing) {
  // One class in the example: a sum per class is one sum.
  DiscoveryOptions options;
  auto model = [](const Values &in) -> Values {
    const at::Tensor x = in[0].toTensor(), classes = in[1].toTensor();
    std::vector<at::Tensor> sums;
    for (int64_t c = 0; c <= classes.max().item<int64_t>(); ++c)
      sums.push_back(x.mul(classes.eq(c).unsqueeze(1)).sum(0));
    return {at::stack(sums), x.sum()};
  };
  const Values example = {at::rand({2, 3}), at::zeros({2}, at::kLong)};
  options.listsValues = "torch.unique";
  const Found found = discoverLeaves(example, 2, model, options);
  EXPECT_NE(found.equal(0), Equal::Yes);
  EXPECT_EQ(found.equal(1), Equal::Yes) << "one number";
}

TEST(Discovery, AModelThatRefusesOneSampleIsCutNevertheless) {
  // The loss behind a norm: one sample is refused, however the targets are cut.
  DiscoveryOptions options;
  options.trains = true;
  options.norms = "norm";
  options.microBatches = 7;
  auto model = [](const Values &in) -> Values {
    const at::Tensor x = in[0].toTensor(), y = in[1].toTensor();
    if (x.size(0) < 2)
      throw std::runtime_error("more than 1 value per channel");
    return {((x - x.mean(0)) / x.std(0) - y).square().mean()};
  };
  const Found found = discoverLeaves({at::randn({7, 3}), at::randn({7, 3})}, 1, model, options);
  EXPECT_EQ(found.dim(0), 0);
  EXPECT_EQ(found.dim(1), 0);
  EXPECT_EQ(found.rule(), rule(Kind::Mean));
  EXPECT_TRUE(found.signature.batchSymbolic);
}

TEST(Discovery, TheExampleMayBeAMicroBatch) {
  DiscoveryOptions options;
  options.microBatches = 3;
  const Found found = discoverLeaves(
      {at::randn({6, 3}), at::randn({2, 3})}, 1,
      [](const Values &in) -> Values {
        return {in[0].toTensor().matmul(in[1].toTensor().t()).softmax(-1)};
      },
      options);
  EXPECT_EQ(found.dim(0), 0);
  EXPECT_EQ(found.dim(1), std::nullopt) << "as long as a micro-batch by coincidence";
  EXPECT_EQ(found.signature.batchSize, 2);
}

} // namespace
} // namespace pipec
