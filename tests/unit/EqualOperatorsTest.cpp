// Operators that are equal except for the elements of their tensors: one runs for all of them.
#include "compiler/cost/EqualOperators.h"

#include "compiler/cost/GraphEvaluator.h"
#include "compiler/cost/OperatorTimes.h"
#include "tests/support/Matchers.h"
#include "tests/support/ParseModel.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>
#include <torch/csrc/jit/ir/ir.h>

namespace pipec {
namespace {

std::string twoLayers(const std::string &end) {
  return R"(model {
  attribute v parameter float32[8,8] requires_grad data=seed(1)
  attribute w parameter float32[8,8] requires_grad data=seed(2)
  graph(%x : Tensor, %v : Tensor, %w : Tensor):
    %zero : int = prim::Constant[value=0]()
    %g : Tensor = aten::mm(%x, %v)
    %h : Tensor = aten::mm(%g, %w)
)" + end +
         "    return (%y)\n}\n";
}

struct Ran {
  std::vector<at::Tensor> outputs; // of each operator
  std::vector<int64_t> times;
  bool distinct = false;

  Ran(const std::string &text, Running running) {
    Model model = take(parseModel(text));
    GraphEvaluator evaluator(model, /*countsFlops=*/false, nullptr, running);
    auto observe = [&](const OperatorRun &run) {
      outputs.resize(run.index);
      times.resize(run.index);
      outputs.push_back(run.outputs.front().toTensor());
      times.push_back(run.ns);
    };
    EXPECT_TRUE(succeeded(evaluator.run({at::ones({2, 8})}, observe)));
    distinct = evaluator.runsDistinct();
  }
};

TEST(EqualOperators, RunOnce) {
  const std::string text = twoLayers("    %y : Tensor = aten::relu(%h)\n");
  const Ran all(text, Running::All), distinct(text, Running::Distinct);
  EXPECT_TRUE(distinct.distinct);
  ASSERT_EQ(distinct.outputs.size(), 3u);
  EXPECT_TRUE(distinct.outputs[1].is_same(distinct.outputs[0]));
  EXPECT_EQ(distinct.times[1], distinct.times[0]);
  EXPECT_FALSE(all.outputs[1].is_same(all.outputs[0]));
  EXPECT_EQ(distinct.outputs[2].sizes(), all.outputs[2].sizes());
}

TEST(EqualOperators, AllRunWhereElementsDecide) {
  for (const char *end : {"    %y : Tensor = aten::gt(%h, %zero)\n", // truth values
                          "    %y : Tensor = aten::nonzero(%h)\n"})  // sizes
  {
    const std::string text = twoLayers(end);
    const Ran all(text, Running::All), distinct(text, Running::Distinct);
    EXPECT_FALSE(distinct.distinct) << end;
    ASSERT_EQ(distinct.outputs.size(), all.outputs.size());
    for (size_t i = 0; i < all.outputs.size(); ++i)
      EXPECT_TRUE(distinct.outputs[i].equal(all.outputs[i])) << end << i;
  }
}

TEST(EqualOperators, AllRunWhereOneWrites) {
  EXPECT_FALSE(Ran(twoLayers("    %y : Tensor = aten::relu_(%h)\n"), Running::Distinct).distinct);
}

TEST(EqualOperators, KeysTellFormsAndNumbersApart) {
  Model model = take(parseModel(twoLayers("    %y : Tensor = aten::unsqueeze(%h, %zero)\n")));
  torch::jit::Node *product = nullptr, *view = nullptr;
  for (torch::jit::Node *node : model.graph->nodes()) {
    product = node->kind() == c10::aten::mm ? node : product;
    view = node->kind() == c10::aten::unsqueeze ? node : view;
  }
  ASSERT_TRUE(product && view);
  const at::Tensor x = at::ones({8, 8});
  const auto key = EqualOperators::keyOf(product, {x, x});
  ASSERT_TRUE(key);
  EXPECT_EQ(key, EqualOperators::keyOf(product, {x.mul(2), x}));
  EXPECT_NE(key, EqualOperators::keyOf(product, {x, x.t()}));
  EXPECT_NE(key, EqualOperators::keyOf(product, {x.narrow(0, 0, 2), x}));
  EXPECT_NE(EqualOperators::keyOf(view, {x, 0}), EqualOperators::keyOf(view, {x, 1}));
  EXPECT_FALSE(EqualOperators::keyOf(view, {x.gt(0), 0})); // elements may decide
}

TEST(EqualOperators, TimesAreThoseOfOne) {
  Model model = take(parseModel(twoLayers("    %y : Tensor = aten::relu(%h)\n")));
  std::vector<std::string> notes;
  TimingRequest request;
  request.ranks = 2;
  request.running = Running::Distinct;
  const CostTable table = take(timeOperators(model, notes, {at::ones({2, 8})}, request));
  ASSERT_EQ(table.rows.size(), 3u);
  EXPECT_GT(table.rows[0].forwardNs, 0);
  EXPECT_EQ(table.rows[1].forwardNs, table.rows[0].forwardNs);
  EXPECT_EQ(table.rows[1].outputBytes, 64);
}

TEST(GraphEvaluator, NoBackwardWhereAllResultsAreDetached) {
  Model model = take(parseModel(twoLayers("    %d : Tensor = aten::detach(%h)\n"
                                          "    %y : Tensor = aten::relu(%d)\n")));
  GraphEvaluator evaluator(model, /*countsFlops=*/false);
  std::vector<std::vector<bool>> hasGradient;
  auto observe = [&](const OperatorRun &run) { hasGradient.push_back(run.backward.hasGradient); };
  EXPECT_TRUE(succeeded(evaluator.run({at::ones({2, 8})}, observe, /*backward=*/true)));
  const std::vector<bool> with = {true}, none;
  EXPECT_EQ(hasGradient, (std::vector<std::vector<bool>>{with, none, none, none}));
}

} // namespace
} // namespace pipec
