// Which channels may bring a gradient back in another run than the example's.
#include "compiler/UncertainGradients.h"

#include <gtest/gtest.h>

#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/ir/irparser.h>

namespace pipec {
namespace {

/// A stage with an argument %x, an index %k and a flag %c of the run, and a trained weight %w,
/// after which `operators` come; %h has a gradient. Each result has a channel whose tensor has no
/// gradient in the example: a 1 per channel that may have one in another run, else a 0.
std::string uncertain(const std::string &operators, const std::string &dtype = "float32") {
  StagedModel model;
  Stage &stage = model.stages.emplace_back();
  stage.graph = std::make_shared<torch::jit::Graph>();
  torch::jit::parseIR(R"(graph(%x : Tensor, %k : int, %c : bool, %w : Tensor):
  %none : NoneType = prim::Constant()
  %no : bool = prim::Constant[value=0]()
  %yes : bool = prim::Constant[value=1]()
  %zero : int = prim::Constant[value=0]()
  %p : str = prim::Constant[value="p"]()
  %q : str = prim::Constant[value="q"]()
  %name : str = aten::str(%k)
  %h : Tensor = aten::mul(%x, %w)
)" + operators,
                      stage.graph.get());

  Plan plan;
  StagePlan &planned = plan.stages.emplace_back();
  for (const char *argument : {"x", "k", "c"})
    planned.inputs.push_back({argument, "", StageInput::Kind::UserInput, planned.inputs.size()});
  planned.attributes.emplace_back().requiresGrad = true;
  for (size_t i = 0; i < stage.graph->outputs().size(); ++i) {
    planned.outputs.emplace_back().channels = {i};
    Channel &channel = plan.channels.emplace_back();
    channel.tensor.known = true;
    channel.tensor.dtype = dtype;
  }
  noteUncertainGradients(model, plan);
  std::string flags;
  for (const Channel &channel : plan.channels)
    flags += channel.tensor.requiresGrad ? '1' : '0';
  return flags;
}

TEST(UncertainGradients, aBranchOrALoopDecides) {
  const std::string operators = R"(  %y : Tensor = prim::If(%c)
    block0():
      -> (%h)
    block1():
      -> (%x)
  %z : Tensor = aten::neg(%y)
  %n : Tensor = aten::detach(%y)
  %r : Tensor = prim::Loop(%k, %yes, %x)
    block0(%i : int, %carried : Tensor):
      -> (%yes, %h)
  %s : Tensor = prim::If(%c)
    block0():
      %one : Tensor = aten::neg(%x)
      -> (%one)
    block1():
      -> (%x)
  return (%h, %y, %z, %n, %r, %s)
)";
  EXPECT_EQ(uncertain(operators), "011010");
  EXPECT_EQ(uncertain(operators, "int64"), "000000") << "none of an integer";
}

TEST(UncertainGradients, aBranchWritesIntoWhatIsOutside) {
  EXPECT_EQ(uncertain(R"(  %out : Tensor = aten::zeros_like(%h, %none, %none, %none, %none, %none)
  %part : Tensor = aten::select(%out, %zero, %zero)
  %list : Tensor[] = prim::ListConstruct(%x, %out)
  %other : Tensor = aten::zeros_like(%h, %none, %none, %none, %none, %none)
  %always : Tensor = aten::zeros_like(%h, %none, %none, %none, %none, %none)
  %written : Tensor = aten::copy_(%always, %h, %no)
  prim::If(%c)
    block0():
      %a : Tensor = aten::copy_(%part, %h, %no)
      %b : Tensor = aten::copy_(%other, %x, %no)
      -> ()
    block1():
      -> ()
  %sum : Tensor = aten::cat(%list, %zero)
  return (%out, %part, %sum, %other, %always, %x)
)"),
            "111000");
}

TEST(UncertainGradients, aLoopAppends) {
  EXPECT_EQ(uncertain(R"(  %list : Tensor[] = prim::ListConstruct(%x)
  %all : Tensor[] = prim::ListConstruct(%x)
  %added : Tensor[] = aten::append(%all, %h)
  prim::Loop(%k, %yes)
    block0(%i : int):
      %more : Tensor[] = aten::append(%list, %h)
      -> (%yes)
  %a : Tensor = aten::__getitem__(%list, %zero)
  %b : Tensor = aten::__getitem__(%all, %zero)
  return (%a, %b)
)"),
            "10");
}

TEST(UncertainGradients, whatAnIterationWritesTheNextOneReads) {
  EXPECT_EQ(uncertain(R"(  %to : Tensor = aten::neg(%x)
  %from : Tensor = aten::neg(%x)
  prim::Loop(%k, %yes)
    block0(%i : int):
      %a : Tensor = aten::copy_(%to, %from, %no)
      %b : Tensor = aten::copy_(%from, %h, %no)
      -> (%yes)
  return (%to, %from)
)"),
            "11");
}

TEST(UncertainGradients, anIndexOrAKeyOfTheRunChooses) {
  EXPECT_EQ(uncertain(R"(  %list : Tensor[] = prim::ListConstruct(%x, %h)
  %a : Tensor = aten::__getitem__(%list, %k)
  %b : Tensor = aten::__getitem__(%list, %zero)
  %dict : Dict(str, Tensor) = prim::DictConstruct(%p, %x, %q, %h)
  %d : Tensor? = aten::get(%dict, %name)
  %e : Tensor? = aten::get(%dict, %p)
  %plain : Dict(str, Tensor) = prim::DictConstruct(%p, %x)
  aten::_set_item(%plain, %name, %h)
  %f : Tensor = aten::__getitem__(%plain, %p)
  %keyed : Dict(str, Tensor) = prim::DictConstruct(%p, %x, %name, %h)
  %g : Tensor = aten::__getitem__(%keyed, %p)
  %without : Tensor[] = prim::ListConstruct(%x, %x)
  %i : Tensor = aten::__getitem__(%without, %k)
  return (%a, %b, %d, %e, %f, %g, %i)
)"),
            "1010110");
}

TEST(UncertainGradients, aFlagOfTheRunTurnsThemOn) {
  EXPECT_EQ(uncertain(R"(  %a : Tensor = aten::detach(%h)
  %on : Tensor = aten::requires_grad_(%a, %c)
  %b : Tensor = aten::neg(%x)
  %always : Tensor = aten::requires_grad_(%b, %yes)
  %d : Tensor = aten::neg(%a)
  return (%a, %b, %d)
)"),
            "101");
}

} // namespace
} // namespace pipec
