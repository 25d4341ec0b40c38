// A batch along another dimension than the first, and arguments that no cut fits.
#include "ir/batch/discovery/UncutArgument.h"
#include "tests/support/Discover.h"
#include "tests/support/Matchers.h"

#include <gtest/gtest.h>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

using namespace pipec;

namespace {

using Model = llvm::function_ref<Values(const Values &)>;
using Dims = std::vector<std::optional<int64_t>>;
using Kind = MergeRule::Kind;

struct Found {
  Signature signature;
  BatchDiscovery discovery;
  std::string uncut;
  int runs = 0;

  Dims dims() const {
    Dims all;
    for (const InputSpec &input : signature.inputs)
      all.push_back(input.batchDim);
    return all;
  }
};

Found find(const Values &inputs, size_t leaves, Model model, int64_t microBatches = 1) {
  Found found;
  found.signature.inputs.resize(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    found.signature.inputs[i].name = std::string(1, static_cast<char>('x' + i));
  found.signature.leaves.resize(leaves);
  auto run = [&](std::vector<Values> calls) -> llvm::Expected<Values> {
    ++found.runs;
    try {
      return model(calls.back());
    } catch (const std::exception &error) {
      return makeError(ExitCode::Usage, error.what());
    }
  };
  DiscoveryOptions options;
  options.microBatches = microBatches;
  const std::vector<bool> given(inputs.size());
  found.discovery = take(discover(found.signature, inputs, given, run, std::move(options)));
  found.uncut = uncutArgument(found.signature, found.discovery.trial, run);
  return found;
}

TEST(LaterBatch, FeaturesMayComeFirst) {
  const at::Tensor weight = at::randn({6, 7});
  auto model = [&](const Values &in) -> Values {
    const at::Tensor y = weight.matmul(in[0].toTensor()) * in[1].toTensor();
    return {y, y.sum()};
  };
  for (const int64_t microBatches : {1, 2}) {
    const Found found = find({at::randn({7, 4}), at::randn({4})}, 2, model, microBatches);
    EXPECT_EQ(found.dims(), (Dims{1, 0}));
    EXPECT_TRUE(found.signature.batchSymbolic);
    EXPECT_EQ(found.signature.leaves[0].merge, (MergeRule{Kind::Concat, 1}));
    EXPECT_EQ(found.signature.leaves[1].merge, (MergeRule{Kind::Sum, 0}));
    EXPECT_NE(found.discovery.notes.front().find("--batch-dim x=1 confirms it"), std::string::npos);
    EXPECT_LT(found.runs, 60);
  }
  EXPECT_EQ(find({at::randn({7, 7}), at::randn({7})}, 2, model).dims(), (Dims{1, 0}));
}

TEST(LaterBatch, TheLastDimensionKeepsSamplesIndependent) {
  // A running sum over the first dimension, and one over the second: [height, width, channels,
  // batch].
  auto model = [](const Values &in) -> Values {
    const at::Tensor x = in[0].toTensor();
    return {x.cumsum(0) + x.cumsum(1) + x.cumsum(2)};
  };
  const Found found = find({at::randn({4, 5, 3, 4})}, 1, model);
  EXPECT_EQ(found.dims(), Dims{3});
  EXPECT_EQ(found.signature.leaves[0].merge, (MergeRule{Kind::Concat, 3}));
  EXPECT_TRUE(found.discovery.warnings.empty());
  // Features stay features, although they are independent: samples affect each other.
  const Found table = find({at::randn({4, 5})}, 1, [](const Values &in) -> Values {
    return {in[0].toTensor().softmax(0)};
  });
  EXPECT_EQ(table.dims(), Dims{0});
}

TEST(LaterBatch, RowsWhoseNumberIsFixedStaySamples) {
  // Nodes of a graph, whose features are independent.
  const at::Tensor neighbours = at::rand({10, 10});
  auto model = [&](const Values &in) -> Values { return {neighbours.matmul(in[0].toTensor())}; };
  const Found found = find({at::randn({10, 3})}, 1, model);
  EXPECT_FALSE(found.signature.batchSymbolic);
  EXPECT_EQ(found.dims(), Dims{0});
  EXPECT_EQ(found.discovery.suggestion, "x=1") << "the other way round, it is as likely";
}

TEST(LaterBatch, AMaskMayHaveAsManyStepsAsThereAreSamples) {
  auto model = [](const Values &in) -> Values { // x[steps, samples, width], y[steps, steps]
    const at::Tensor x = in[0].toTensor(), mask = in[1].toTensor(), lengths = in[2].toTensor();
    TORCH_CHECK(mask.size(1) == x.size(0) && lengths.size(0) == x.size(1), "sizes");
    return {at::einsum("st,tbw->sbw", {mask, x}) * lengths.t().unsqueeze(2)};
  };
  const Found found = find({at::randn({5, 5, 3}), at::rand({5, 5}), at::rand({5, 5})}, 1, model);
  EXPECT_EQ(found.dims(), (Dims{1, std::nullopt, 0}));
}

TEST(UncutArgument, IsNamed) {
  auto rows = [](const Values &in) -> Values {
    const at::Tensor x = in[0].toTensor();
    return {x + in[1].toTensor().view({x.size(0), -1, 4}).sum(1)};
  };
  const Found heads = find({at::randn({3, 4}), at::randn({6, 4})}, 1, rows);
  EXPECT_FALSE(heads.signature.batchSymbolic);
  EXPECT_NE(heads.uncut.find("y has 2 rows per sample"), std::string::npos) << heads.uncut;
  auto pairs = [](const Values &in) -> Values {
    const at::Tensor x = in[0].toTensor();
    return {(x.matmul(x.t()) + in[1].toTensor()).softmax(1).matmul(x)};
  };
  const Found bias = find({at::randn({4, 7}), at::randn({4, 4})}, 1, pairs);
  EXPECT_FALSE(bias.signature.batchSymbolic);
  EXPECT_NE(bias.uncut.find("dimensions 0 and 1 of y have the size of the batch"),
            std::string::npos)
      << bias.uncut;
  // Here constants fix the batch.
  const Found fixed =
      find({at::randn({4, 6}), at::randn({4, 4})}, 1, [](const Values &in) -> Values {
        return {in[0].toTensor().view({4, 2, 3}).sum(1) + in[1].toTensor().sum()};
      });
  EXPECT_FALSE(fixed.signature.batchSymbolic);
  EXPECT_EQ(fixed.uncut, "");
}

} // namespace
