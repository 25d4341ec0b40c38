#include "compiler/verify/WithoutDerivative.h"

#include <gmock/gmock.h>

#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/ir/irparser.h>

namespace pipec {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::StartsWith;

StagedModel stagesThatScatter() {
  StagedModel stages;
  stages.stages.emplace_back();
  stages.stages[0].graph = std::make_shared<torch::jit::Graph>();
  torch::jit::parseIR(R"(
graph(%x : Tensor, %y : Tensor):
  %one : int = prim::Constant[value=1]()
  %a : Tensor = aten::select_scatter(%x, %y, %one, %one)
  %b : Tensor = aten::select_scatter(%a, %y, %one, %one)
  %c : Tensor = aten::neg(%b)
  return (%c))",
                      stages.stages[0].graph.get());
  return stages;
}

TEST(WithoutDerivative, namesTheOperatorOfTheMessage) {
  const StagedModel stages = stagesThatScatter();
  EXPECT_THAT(withoutDerivative("stage 0: running the stage: RuntimeError: select_scatter does not "
                                "support automatic differentiation for outputs with complex dtype.",
                                stages),
              ElementsAre(StartsWith("aten::select_scatter")));
  EXPECT_THAT(withoutDerivative("derivative for aten::neg is not implemented", stages),
              ElementsAre(StartsWith("aten::neg")));
  EXPECT_THAT(withoutDerivative("the derivative for 'neg' is not implemented.", stages),
              ElementsAre(StartsWith("aten::neg")));
}

TEST(WithoutDerivative, saysNothingOfOtherMessages) {
  const StagedModel stages = stagesThatScatter();
  EXPECT_THAT(withoutDerivative("neg: out of memory", stages), IsEmpty());
  EXPECT_THAT(withoutDerivative("derivative for aten::exp is not implemented", stages), IsEmpty());
  EXPECT_THAT(withoutDerivative("", stages), IsEmpty());
}

} // namespace
} // namespace pipec
