// Passes that simplify a model, where the text tests cannot look: linear size of the work, and
// results at scale.
#include "passes/PassManager.h"
#include "passes/Passes.h"
#include "tests/support/TestModels.h"

#include <gtest/gtest.h>

namespace pipec {
namespace {

/// Runs one pass, checks the graph, and checks that a second run finds nothing left.
bool run(Model &model, PassInfo info) {
  PassManagerOptions options;
  options.verifyEach = options.checkHonesty = false; // the texts of large models take long
  PassManager manager(options);
  llvm::cantFail(manager.addPipeline(info.name));
  AnyModel any = std::move(model);
  llvm::Expected<bool> changed = manager.run(any);
  model = std::get<Model>(any); // shares the graph
  if (!changed) {
    ADD_FAILURE() << llvm::toString(changed.takeError());
    return false;
  }
  test::lint(model);
  llvm::Expected<bool> again = manager.run(any);
  EXPECT_TRUE(again && !*again) << info.name.str() << " is not done after one run:\n"
                                << test::textOf(model);
  return *changed;
}

TEST(DeadCode, keepsWhatSomebodyCanSee) {
  Model model = test::modelOf(R"(graph(%x : Tensor, %c : bool, %a : Tensor):
  %one : int = prim::Constant[value=1]()
  %p : float = prim::Constant[value=0.5]()
  %msg : str = prim::Constant[value="no"]()
  %none : NoneType = prim::Constant()
  %dead : Tensor = aten::neg(%x)
  %deader : Tensor = aten::relu_(%dead)
  %random : Tensor = aten::dropout(%x, %p, %c)
  %y : Tensor = aten::relu(%x)
  %v : Tensor = aten::unsqueeze(%y, %one)
  %w : Tensor = aten::add_(%v, %v, %one)
  %s : Tensor = aten::add_(%a, %one, %one)
  %unused : int = prim::If(%c)
    block0():
      prim::RaiseException(%msg, %none)
      -> (%one)
    block1():
      -> (%one)
  return (%y))",
                              {0});
  EXPECT_TRUE(run(model, deadCode()));
  EXPECT_EQ(test::countNodes(model, "aten::neg"), 0u);
  EXPECT_EQ(test::countNodes(model, "aten::relu_"), 0u);
  EXPECT_EQ(test::countNodes(model, "aten::dropout"), 1u);
  EXPECT_EQ(test::countNodes(model, "aten::add_"), 2u);
  EXPECT_EQ(test::countNodes(model, "prim::RaiseException"), 1u);
  EXPECT_EQ(test::resultCounts(model, "prim::If"), std::vector<size_t>{0});
}

TEST(DeadCode, dropsCarriedValuesThatOnlyFeedThemselves) {
  Model model = test::modelOf(R"(graph(%x : Tensor, %n : int):
  %one : int = prim::Constant[value=1]()
  %true : bool = prim::Constant[value=1]()
  %r : Tensor, %k : int, %d : Tensor = prim::Loop(%n, %true, %x, %one, %x)
    block0(%i : int, %h : Tensor, %j : int, %e : Tensor):
      %g : Tensor = aten::mul(%h, %j)
      %m : int = aten::add(%j, %one)
      %f : Tensor = aten::neg(%e)
      -> (%true, %g, %m, %f)
  return (%r))");
  EXPECT_TRUE(run(model, deadCode()));
  EXPECT_EQ(test::countNodes(model, "aten::neg"), 0u);
  EXPECT_EQ(test::countNodes(model, "aten::add"), 1u); // feeds the living carried value
  EXPECT_EQ(test::resultCounts(model, "prim::Loop"), std::vector<size_t>{2});
}

TEST(DeadCode, writesToElementsOfALivingList) {
  Model model = test::modelOf(R"(graph(%x : Tensor):
  %zero : int = prim::Constant[value=0]()
  %a : Tensor = aten::relu(%x)
  %l : Tensor[] = prim::ListConstruct(%a)
  %w : Tensor = aten::neg_(%a)
  %m : Tensor[] = aten::append(%l, %x)
  %c : Tensor = aten::cat(%l, %zero)
  return (%c))");
  EXPECT_FALSE(run(model, deadCode()));
  EXPECT_EQ(test::countNodes(model, "aten::neg_"), 1u);
  EXPECT_EQ(test::countNodes(model, "aten::append"), 1u);
}

TEST(FoldConstants, takesTheBranchThatTypesAndNumbersDecide) {
  Model model = test::modelOf(R"(graph(%x : Tensor, %m : Tensor?):
  %two : int = prim::Constant[value=2]()
  %three : int = prim::Constant[value=3]()
  %none : NoneType = prim::Constant()
  %msg : str = prim::Constant[value="no"]()
  %sum : int = aten::add(%two, %three)
  %less : bool = aten::lt(%two, %sum)
  %a : bool = aten::__isnot__(%x, %none)
  %b : bool = aten::__isnot__(%m, %none)
  %y : Tensor = prim::If(%less)
    block0():
      %p : Tensor = prim::If(%a)
        block0():
          %q : Tensor = aten::relu(%x)
          -> (%q)
        block1():
          -> (%x)
      -> (%p)
    block1():
      prim::RaiseException(%msg, %none)
      -> (%x)
  %z : Tensor = prim::If(%b)
    block0():
      %u : Tensor = prim::unchecked_cast(%m)
      -> (%u)
    block1():
      -> (%y)
  return (%z))");
  EXPECT_TRUE(run(model, foldConstants()));
  EXPECT_TRUE(run(model, deadCode()));
  EXPECT_EQ(test::countNodes(model, "prim::If"), 1u); // %m may be None
  EXPECT_EQ(test::countNodes(model, "aten::relu"), 1u);
  EXPECT_EQ(test::countNodes(model, "prim::RaiseException"), 0u);
  EXPECT_EQ(test::countNodes(model, "aten::add"), 0u);
}

TEST(FoldConstants, leavesFloatArithmetic) {
  Model model = test::modelOf(R"(graph(%x : Tensor):
  %a : float = prim::Constant[value=0.10000000000000001]()
  %b : float = prim::Constant[value=0.20000000000000001]()
  %c : float = aten::add(%a, %b)
  %i : int = prim::Constant[value=3]()
  %d : float = aten::Float(%i)
  %e : float = aten::mul(%c, %d)
  %y : Tensor = aten::mul(%x, %e)
  return (%y))");
  EXPECT_FALSE(run(model, foldConstants()));
}

TEST(FoldConstants, ranksAndDtypesBecomeFacts) {
  Model model =
      test::modelOf(R"(graph(%x : Float(2, 3, strides=[3, 1], requires_grad=0, device=cpu)):
  %two : int = prim::Constant[value=2]()
  %d : int = aten::dim(%x)
  %same : bool = aten::eq(%d, %two)
  %s : int[] = aten::size(%x)
  %n : int = aten::len(%s)
  %f : bool = aten::is_floating_point(%x)
  %both : bool = aten::__and__(%same, %f)
  %z : int = aten::size(%x, %n)
  %r : (bool, int) = prim::TupleConstruct(%both, %z)
  return (%r))");
  EXPECT_TRUE(run(model, foldConstants()));
  EXPECT_TRUE(run(model, deadCode()));
  EXPECT_EQ(test::countNodes(model, "aten::dim"), 0u);
  EXPECT_EQ(test::countNodes(model, "aten::__and__"), 0u);
  EXPECT_EQ(test::countNodes(model, "aten::size"), 1u); // sizes are never used
  ASSERT_EQ(model.obligations.size(), 2u);
  EXPECT_EQ(toString(model.obligations[0]), "fact input x has rank 2");
  EXPECT_EQ(toString(model.obligations[1]), "fact input x has dtype float32");
}

TEST(FoldConstants, unchangedLists) {
  const char *text = R"(graph(%x : Tensor, %y : Tensor):
  %one : int = prim::Constant[value=1]()
  %l : Tensor[] = prim::ListConstruct(%x, %y)
  %n : int = aten::len(%l)
  %e : Tensor = aten::__getitem__(%l, %one)
  %a : Tensor, %b : Tensor = prim::ListUnpack(%l)
  %z : Tensor = aten::add(%e, %a, %n)
  APPEND
  return (%z))";
  std::string kept = text, changed = text;
  kept.replace(kept.find("APPEND"), 6, "");
  changed.replace(changed.find("APPEND"), 6, "%m : Tensor[] = aten::append(%l, %x)");
  Model model = test::modelOf(kept);
  EXPECT_TRUE(run(model, foldConstants()));
  EXPECT_TRUE(run(model, deadCode()));
  EXPECT_EQ(test::countNodes(model, "prim::ListConstruct"), 0u);
  Model written = test::modelOf(changed);
  EXPECT_FALSE(run(written, foldConstants()));
}

TEST(LowerTuples, throughBranchesAndLoops) {
  Model model = test::modelOf(R"(graph(%x : Tensor, %y : Tensor, %c : bool, %n : int):
  %true : bool = prim::Constant[value=1]()
  %one : int = prim::Constant[value=1]()
  %t : (Tensor, Tensor) = prim::If(%c)
    block0():
      %p : (Tensor, Tensor) = prim::TupleConstruct(%x, %y)
      -> (%p)
    block1():
      %q : (Tensor, Tensor) = prim::TupleConstruct(%y, %x)
      -> (%q)
  %l : (Tensor, Tensor) = prim::Loop(%n, %true, %t)
    block0(%i : int, %h : (Tensor, Tensor)):
      %h0 : Tensor, %h1 : Tensor = prim::TupleUnpack(%h)
      %g : Tensor = aten::relu(%h0)
      %k : (Tensor, Tensor) = prim::TupleConstruct(%h1, %g)
      -> (%true, %k)
  %a : Tensor = prim::TupleIndex(%l, %one)
  return (%a))");
  EXPECT_TRUE(run(model, lowerTuples()));
  EXPECT_TRUE(run(model, deadCode()));
  EXPECT_EQ(test::countNodes(model, "prim::TupleConstruct"), 0u) << test::textOf(model);
  EXPECT_EQ(test::countNodes(model, "prim::TupleUnpack"), 0u);
  EXPECT_EQ(test::countNodes(model, "prim::TupleIndex"), 0u);
}

TEST(UnrollLoops, knownRoundsWithinTheGrowth) {
  auto text = [](int rounds) {
    return R"(graph(%x : Tensor):
  %true : bool = prim::Constant[value=1]()
  %n : int = prim::Constant[value=)" +
           std::to_string(rounds) + R"(]()
  %y : Tensor = prim::Loop(%n, %true, %x)
    block0(%i : int, %h : Tensor):
      %g : Tensor = aten::mul(%h, %i)
      -> (%true, %g)
  return (%y))";
  };
  Model model = test::modelOf(text(3));
  EXPECT_TRUE(run(model, unrollLoops()));
  EXPECT_EQ(test::countNodes(model, "prim::Loop"), 0u);
  EXPECT_EQ(test::countNodes(model, "aten::mul"), 3u);
  Model none = test::modelOf(text(0));
  EXPECT_TRUE(run(none, unrollLoops()));
  EXPECT_TRUE(test::returnsInput(none, 0, 0));
  Model large = test::modelOf(text(1000000));
  EXPECT_FALSE(run(large, unrollLoops()));
}

TEST(RemoveListMutation, readersKeepWhatTheySaw) {
  Model model = test::modelOf(R"(graph(%x : Tensor, %y : Tensor):
  %zero : int = prim::Constant[value=0]()
  %l : Tensor[] = prim::ListConstruct(%x)
  %n : int = aten::len(%l)
  %m : Tensor[] = aten::append(%l, %y)
  %o : Tensor[] = aten::append(%l, %x)
  %c : Tensor = aten::cat(%l, %n)
  %p : Tensor[] = aten::append(%l, %c)
  %d : Tensor = aten::cat(%l, %zero)
  return (%d))");
  EXPECT_TRUE(run(model, removeListMutation()));
  EXPECT_EQ(test::countNodes(model, "aten::append"), 0u);
  EXPECT_EQ(test::operandCounts(model, "prim::ListConstruct"), (std::vector<size_t>{1, 3, 4}));
}

TEST(RemoveListMutation, keepsListsThatSomebodyHolds) {
  Model model = test::modelOf(R"(graph(%x : Tensor):
  %zero : int = prim::Constant[value=0]()
  %l : Tensor[] = prim::ListConstruct(%x)
  %t : (Tensor[], int) = prim::TupleConstruct(%l, %zero)
  %m : Tensor[] = aten::append(%l, %x)
  return (%t))");
  EXPECT_FALSE(run(model, removeListMutation()));
}

TEST(CommonSubexpression, integersOnly) {
  Model model = test::modelOf(R"(graph(%x : Tensor):
  %zero : int = prim::Constant[value=0]()
  %null : int = prim::Constant[value=0]()
  %a : int = aten::size(%x, %zero)
  %b : int = aten::size(%x, %null)
  %c : int = aten::mul(%a, %b)
  %d : int = aten::mul(%b, %a)
  %l : int[] = prim::ListConstruct(%a, %c)
  %k : int[] = prim::ListConstruct(%b, %d)
  %p : Tensor = aten::view(%x, %l)
  %q : Tensor = aten::view(%x, %k)
  %r : Tensor = aten::relu(%p)
  %s : Tensor = aten::relu(%p)
  %f : float = aten::Float(%a)
  %g : float = aten::Float(%a)
  %u : Tensor = aten::add(%r, %s, %zero)
  %v : Tensor = aten::mul(%u, %f)
  %w : Tensor = aten::mul(%v, %g)
  %z : Tensor = aten::add(%w, %q, %zero)
  return (%z))");
  EXPECT_TRUE(run(model, commonSubexpression()));
  EXPECT_EQ(test::countNodes(model, "aten::size"), 1u);
  EXPECT_EQ(test::countNodes(model, "prim::ListConstruct"), 1u);
  EXPECT_EQ(test::countNodes(model, "aten::relu"), 2u);
  EXPECT_EQ(test::countNodes(model, "aten::view"), 2u);
  EXPECT_EQ(test::countNodes(model, "aten::Float"), 2u);
}

TEST(CommonSubexpression, formsThatChange) {
  Model model = test::modelOf(R"(graph(%x : Tensor):
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %y : Tensor = aten::relu(%x)
  %a : int = aten::size(%y, %zero)
  %t : Tensor = aten::transpose_(%y, %zero, %one)
  %b : int = aten::size(%y, %zero)
  %c : int = aten::mul(%a, %b)
  return (%c))");
  EXPECT_FALSE(run(model, commonSubexpression()));
}

TEST(RemoveInplace, freshResultsOnly) {
  Model model = test::modelOf(R"(graph(%x : Tensor, %a : Tensor):
  %one : int = prim::Constant[value=1]()
  %y : Tensor = aten::linear(%x, %a, %a)
  %n : Tensor = aten::neg(%y)
  %w : Tensor = aten::relu_(%y)
  %u : Tensor = aten::hardtanh_(%w, %one, %one)
  %z : Tensor = aten::add(%y, %n, %one)
  %s : Tensor = aten::relu_(%a)
  %p : Tensor = aten::relu(%z)
  %v : Tensor = aten::unsqueeze(%p, %one)
  %q : Tensor = aten::relu_(%p)
  %r : Tensor = aten::add(%v, %q, %one)
  return (%r))",
                              {0});
  EXPECT_TRUE(run(model, removeInplace()));
  EXPECT_EQ(test::countNodes(model, "aten::hardtanh_"), 0u);
  EXPECT_EQ(test::countNodes(model, "aten::relu_"), 1u); // of the attribute
  EXPECT_EQ(test::expressions(model, "aten::unsqueeze", 1).back(),
            "aten::unsqueeze(aten::relu, prim::Constant)");
  EXPECT_EQ(test::expressions(model, "aten::add", 2)[0],
            "aten::add(aten::hardtanh(aten::relu, prim::Constant, prim::Constant), "
            "aten::neg(aten::linear), prim::Constant)");
}

TEST(RemoveInplace, listsMadeBeforeShowTheWrite) {
  Model model = test::modelOf(R"(graph(%x : Tensor):
  %one : int = prim::Constant[value=1]()
  %y : Tensor = aten::clone(%x, %one)
  %l : Tensor[] = prim::ListConstruct(%y, %x)
  %w : Tensor = aten::relu_(%y)
  %c : Tensor = aten::cat(%l, %one)
  return (%c))");
  EXPECT_FALSE(run(model, removeInplace()));
}

TEST(RemoveInplace, twoTensorsNeedTheSameForm) {
  auto text = [](const char *other) {
    return std::string(
               "graph(%x : Float(2, 3, strides=[3, 1], requires_grad=0, device=cpu), %o : ") +
           other + R"():
  %one : int = prim::Constant[value=1]()
  %y : Float(2, 3, strides=[3, 1], requires_grad=0, device=cpu) = aten::relu(%x)
  %w : Tensor = aten::add_(%y, %o, %one)
  return (%w))";
  };
  Model same = test::modelOf(text("Float(2, 3, strides=[3, 1], requires_grad=0, device=cpu)"));
  EXPECT_TRUE(run(same, removeInplace()));
  Model transposed =
      test::modelOf(text("Float(2, 3, strides=[1, 2], requires_grad=0, device=cpu)"));
  EXPECT_FALSE(run(transposed, removeInplace()));
  Model wider = test::modelOf(text("Double(2, 3, strides=[3, 1], requires_grad=0, device=cpu)"));
  EXPECT_FALSE(run(wider, removeInplace()));
  Model unknown = test::modelOf(text("Tensor"));
  EXPECT_FALSE(run(unknown, removeInplace()));
}

/// A model of many equal steps, each with a branch to fold, a tuple, integers to share and a write
/// to remove.
std::string manySteps(int steps) {
  std::string text = "graph(%v0 : Tensor, %w : Tensor):\n  %one : int = "
                     "prim::Constant[value=1]()\n  %none : NoneType = prim::Constant()\n";
  for (int i = 0; i < steps; ++i) {
    const std::string n = std::to_string(i), next = std::to_string(i + 1);
    text += "  %s" + n + " : int = aten::size(%v0, %one)\n";
    text += "  %c" + n + " : bool = aten::__is__(%w, %none)\n";
    text += "  %y" + n + " : Tensor = prim::If(%c" + n + ")\n    block0():\n      -> (%v" + n +
            ")\n    block1():\n";
    text += "      %l" + n + " : Tensor = aten::linear(%v" + n + ", %w, %none)\n      -> (%l" + n +
            ")\n";
    text += "  %r" + n + " : Tensor = aten::relu_(%y" + n + ")\n";
    text += "  %t" + n + " : (Tensor, int) = prim::TupleConstruct(%r" + n + ", %s" + n + ")\n";
    text += "  %e" + n + " : Tensor, %k" + n + " : int = prim::TupleUnpack(%t" + n + ")\n";
    text += "  %v" + next + " : Tensor = aten::mul(%e" + n + ", %k" + n + ")\n";
  }
  return text + "  return (%v" + std::to_string(steps) + ")\n";
}

TEST(Simplify, largeModels) {
  constexpr int kSteps = 2500; // about 20,000 nodes
  Model model = test::modelOf(manySteps(kSteps), {0});
  EXPECT_TRUE(run(model, simplify()));
  EXPECT_EQ(test::countNodes(model, "prim::If"), 0u);
  EXPECT_EQ(test::countNodes(model, "aten::relu_"), 0u);
  EXPECT_EQ(test::countNodes(model, "aten::relu"), size_t(kSteps));
  EXPECT_EQ(test::countNodes(model, "aten::size"), 1u);
  EXPECT_EQ(test::countNodes(model, "prim::TupleConstruct"), 0u);
}

} // namespace
} // namespace pipec
