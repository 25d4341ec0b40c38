// Which input the batch is taken from when it is not the first tensor's.
#include "ir/batch/CutCandidates.h"
#include "ir/batch/MicroBatch.h"
#include "tests/support/Discover.h"
#include "tests/support/Matchers.h"

#include <gtest/gtest.h>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

using namespace pipec;

namespace {

/// What the trial says of a model with one tensor as its result.
struct Tried {
  Signature signature;
  std::string whole;
  int runs = 0;

  std::optional<int64_t> dim(size_t input) const { return signature.inputs[input].batchDim; }
  bool concatenates() const {
    const MergeRule &rule = signature.leaves[0].merge;
    return rule.kind == MergeRule::Kind::Concat && rule.dim == 0;
  }
};

Tried tryOn(const Values &inputs, llvm::function_ref<at::Tensor(const Values &)> model,
            std::vector<bool> given = {}, std::optional<int64_t> dim = {}) {
  Tried tried;
  tried.signature.inputs.resize(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    tried.signature.inputs[i].name = "input" + std::to_string(i);
  tried.signature.inputs[0].batchDim = dim;
  tried.signature.leaves.resize(1);
  given.resize(inputs.size(), false);
  auto run = [&](std::vector<Values> calls) -> llvm::Expected<Values> {
    ++tried.runs;
    try {
      for (size_t i = 0; i + 1 < calls.size(); ++i)
        model(calls[i]);
      return Values{model(calls.back())};
    } catch (const std::exception &error) {
      return makeError(ExitCode::Other, error.what());
    }
  };
  tried.whole = notCut(tried.signature, inputs, given, run);
  return tried;
}

TEST(BatchDimGuess, TheFirstTensorMayBeATableThatNoResultFollows) {
  const Values inputs = {at::randn({3, 4}), at::randn({6, 4})};
  auto model = [](const Values &in) { return in[1].toTensor() + in[0].toTensor().mean(0); };
  const Tried tried = tryOn(inputs, model);
  EXPECT_EQ(tried.dim(0), std::nullopt);
  EXPECT_EQ(tried.dim(1), 0);
  EXPECT_TRUE(tried.signature.batchSymbolic);
  EXPECT_EQ(tried.signature.batchSize, 6);
  EXPECT_TRUE(tried.concatenates());
}

TEST(BatchDimGuess, ATableThatTheModelFixesIsNoFixedBatch) {
  const at::Tensor scale = at::randn({9});
  const Tried tried = tryOn({at::randn({9, 4}), at::randn({6, 4})}, [&](const Values &in) {
    return in[1].toTensor().mm(in[0].toTensor().t()) * scale;
  });
  EXPECT_EQ(tried.dim(0), std::nullopt);
  EXPECT_EQ(tried.dim(1), 0);
  EXPECT_TRUE(tried.signature.batchSymbolic);
  EXPECT_TRUE(tried.concatenates());
}

TEST(BatchDimGuess, ATableMayHaveAsManyRowsAsThereAreSamples) {
  const at::Tensor scale = at::randn({6});
  const Tried tried = tryOn({at::randn({6, 4}), at::randn({6, 4})}, [&](const Values &in) {
    return in[1].toTensor().mm(in[0].toTensor().t()) * scale;
  });
  EXPECT_EQ(tried.dim(0), std::nullopt);
  EXPECT_EQ(tried.dim(1), 0);
  EXPECT_TRUE(tried.concatenates());
}

TEST(BatchDimGuess, OneResultOfAllSamplesIsNoReasonForAnotherGuess) {
  const Tried tried = tryOn({at::randn({6, 4}), at::randn({3, 4})}, [](const Values &in) {
    return at::mean(in[0].toTensor()) + in[1].toTensor().sum();
  });
  EXPECT_EQ(tried.dim(0), 0);
  EXPECT_EQ(tried.signature.leaves[0].merge.kind, MergeRule::Kind::Mean);
}

TEST(BatchDimGuess, WhatOneResultDoesNotFollowIsNoBatch) {
  // The first argument's size is fixed by a constant; the second has a result of its own.
  Signature signature;
  signature.inputs.resize(2);
  signature.leaves.resize(2);
  auto run = [](std::vector<Values> calls) -> llvm::Expected<Values> {
    const at::Tensor x = calls.back()[0].toTensor(), y = calls.back()[1].toTensor();
    if (x.size(0) != 4)
      return makeError(ExitCode::Other, "expected 4");
    return Values{x + 1, y + x.sum()};
  };
  notCut(signature, {at::randn({4, 2}), at::randn({6, 2})}, {false, false}, run);
  EXPECT_FALSE(signature.batchSymbolic);
  EXPECT_EQ(signature.batchSize, 4);
}

TEST(BatchDimGuess, TheRowsOfAnEdgeListAreNoSamples) {
  const Values inputs = {at::arange(12).remainder(6).view({2, 6}), at::randn({6, 4})};
  const Tried tried = tryOn(inputs, [](const Values &in) {
    const at::Tensor edges = in[0].toTensor(), nodes = in[1].toTensor();
    return at::zeros_like(nodes).index_add(0, edges[1], nodes.index_select(0, edges[0]));
  });
  EXPECT_FALSE(tried.signature.batchSymbolic);
  EXPECT_EQ(tried.whole.find("input0 refers to samples by index"), 0u) << tried.whole;
}

TEST(BatchDimGuess, AFirstTensorThatResultsFollowIsTheBatch) {
  auto model = [](const Values &in) { return in[0].toTensor() + in[1].toTensor().sum(); };
  const Tried alone =
      tryOn({at::randn({6, 4})}, [](const Values &in) { return in[0].toTensor() + 1; });
  const Tried tried = tryOn({at::randn({6, 4}), at::randn({3, 4})}, model);
  EXPECT_EQ(tried.dim(0), 0);
  EXPECT_EQ(tried.dim(1), std::nullopt);
  EXPECT_EQ(tried.runs, alone.runs) << "nothing else is tried";
}

TEST(BatchDimGuess, WhoNamesADimensionHasIt) {
  auto model = [](const Values &in) { return in[1].toTensor() + in[0].toTensor().mean(0); };
  const Tried tried = tryOn({at::randn({3, 4}), at::randn({6, 4})}, model, {true}, 0);
  EXPECT_EQ(tried.dim(0), 0);
  EXPECT_EQ(tried.dim(1), std::nullopt);
}

std::string cutText(const ArgumentCut &cut) {
  auto text = [](std::optional<int64_t> dim) { return dim ? std::to_string(*dim) : "-"; };
  if (cut.parts.empty())
    return text(cut.dim);
  std::string parts;
  for (const PartDim &part : cut.parts)
    parts += (parts.empty() ? "" : ",") + part.path + "=" + text(part.dim);
  return "{" + parts + "}";
}

/// "0:00 1:-{t=-,x=0}": groups, and the dimension of each argument or of its parts.
std::string waysText(const Values &inputs, std::vector<bool> given = {},
                     std::optional<int64_t> first = {}) {
  Signature signature;
  signature.inputs.resize(inputs.size());
  signature.inputs[0].batchDim = first;
  given.resize(inputs.size());
  std::string text;
  for (const CutCandidate &way : take(cutCandidates(signature, inputs, given))) {
    text += fmt::format("{}{}:", text.empty() ? "" : " ", way.group);
    for (const ArgumentCut &cut : way.dims)
      text += cutText(cut);
  }
  return text;
}

TEST(CutCandidates, PartsOfADictHaveSizesOfTheirOwn) {
  c10::Dict<std::string, at::Tensor> dict;
  dict.insert("x", at::ones({6, 4}));
  dict.insert("t", at::ones({3, 4}));
  EXPECT_EQ(waysText({dict}), "0:{t=-,x=0} 1:{t=0,x=-}");
  EXPECT_EQ(waysText({at::ones({3}), dict}), "0:0{t=0,x=-} 0:0- 1:-{t=-,x=0} 2:-{t=0,x=-}");
  dict.insert_or_assign("t", at::ones({6, 4}));
  EXPECT_EQ(waysText({dict}), "0:0 0:{t=0,x=-} 0:{t=-,x=0}");
}

TEST(CutCandidates, EveryTensorMayBeTheBatch) {
  EXPECT_EQ(waysText({at::ones({6, 4}), int64_t(3)}), "0:0-");
  EXPECT_EQ(waysText({at::ones({6, 4}), at::ones({3})}), "0:0- 1:-0");
  EXPECT_EQ(waysText({at::ones({6, 4}), at::ones({6})}), "0:00 0:0- 1:-0");
  EXPECT_EQ(waysText({at::ones({6}), at::ones({6}), at::ones({6})}),
            "0:000 0:0-0 0:00- 0:0-- 1:-00 1:-0- 2:--0");
  EXPECT_NE(waysText({at::ones({6}), at::ones({6}), at::ones({6}), at::ones({6})}).find("0:00--"),
            std::string::npos)
      << "two of the samples, two tables";
  EXPECT_EQ(waysText({at::ones({}), int64_t(1)}), "");
}

TEST(CutCandidates, NamedDimensionsAreTheBatch) {
  EXPECT_EQ(waysText({at::ones({2, 6}), at::ones({3, 6})}, {true}, 1), "0:1- 0:11");
  EXPECT_EQ(waysText({at::ones({6, 4}), at::ones({6, 6})}, {true}, 0), "0:00 0:0- 0:01");
}

} // namespace
