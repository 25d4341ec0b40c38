// What may share memory, what is written where, and which cuts would separate a write from its
// aliases.
#include "passes/analysis/AliasAnalysis.h"

#include "llvm/Support/raw_ostream.h"
#include "tests/support/TestModels.h"

#include <gtest/gtest.h>

namespace pipec {
namespace {

using test::valueOf;

bool mayAlias(const AliasAnalysis &alias, const torch::jit::Value *a, const torch::jit::Value *b) {
  const std::optional<size_t> left = alias.memoryOf(a), right = alias.memoryOf(b);
  return left && right && *left == *right;
}

std::string intervalsOf(const Model &model) {
  AliasAnalysis alias(model);
  std::string text;
  for (const AliasAnalysis::Interval &interval : alias.intervals())
    text += "(" + std::to_string(interval.from) + "," + std::to_string(interval.to) + "]";
  return text;
}

std::string printed(const Model &model) {
  std::string text;
  llvm::raw_string_ostream os(text);
  AliasAnalysis(model).print(os);
  return os.str();
}

TEST(AliasAnalysis, viewsShareAndResultsDoNot) {
  Model model = test::modelOf(R"(graph(%x : Tensor):
  %one : int = prim::Constant[value=1]()
  %y : Tensor = aten::relu(%x)
  %v : Tensor = aten::unsqueeze(%y, %one)
  %w : Tensor = aten::add_(%v, %v, %one)
  %z : Tensor = aten::mul(%y, %x)
  return (%z))");
  AliasAnalysis alias(model);
  EXPECT_TRUE(mayAlias(alias, valueOf(model, "y"), valueOf(model, "w")));
  EXPECT_TRUE(alias.isWritten(valueOf(model, "y")));
  EXPECT_FALSE(mayAlias(alias, valueOf(model, "y"), valueOf(model, "x")));
  EXPECT_FALSE(alias.isWritten(valueOf(model, "x")));
  EXPECT_FALSE(alias.memoryOf(valueOf(model, "one")));
  EXPECT_EQ(intervalsOf(model), "(1,3]"); // the final value of %y may be read in a later stage
}

TEST(AliasAnalysis, quantisedClampWritesWhenItsFlagSaysSo) {
  Model model = test::modelOf(R"(graph(%x : Tensor, %y : Tensor, %flag : bool):
  %true : bool = prim::Constant[value=1]()
  %false : bool = prim::Constant[value=0]()
  %a : Tensor = quantized::relu6(%x, %true)
  %b : Tensor = quantized::relu6(%y, %false)
  %c : Tensor = aten::relu(%y)
  %d : Tensor = quantized::relu6(%c, %flag)
  return (%a, %b, %d))");
  AliasAnalysis alias(model);
  EXPECT_TRUE(alias.isWritten(valueOf(model, "x")));
  EXPECT_TRUE(mayAlias(alias, valueOf(model, "x"), valueOf(model, "a")));
  EXPECT_FALSE(alias.isWritten(valueOf(model, "y")));
  EXPECT_FALSE(mayAlias(alias, valueOf(model, "y"), valueOf(model, "b")));
  EXPECT_TRUE(alias.isWritten(valueOf(model, "c")));
}

TEST(AliasAnalysis, attributesByStorage) {
  const char *text = R"(graph(%x : Tensor, %a : Tensor, %b : Tensor, %c : Tensor):
  %one : int = prim::Constant[value=1]()
  %y : Tensor = aten::mul(%x, %b)
  %w : Tensor = aten::add_(%a, %one, %one)
  %z : Tensor = aten::mul(%y, %c)
  %r : Tensor = aten::mul(%z, %b)
  return (%r))";
  // a and b overlap: from the first touch of either to the last.
  EXPECT_EQ(intervalsOf(test::modelOf(text, {7, 7, 8})), "(1,4]");
  // Distinct storages: the write of %a touches nothing else.
  EXPECT_EQ(intervalsOf(test::modelOf(text, {7, 8, 9})), "");
}

TEST(AliasAnalysis, listsHoldWithoutUnitingUntilTakenOut) {
  Model model = test::modelOf(R"(graph(%x : Tensor):
  %zero : int = prim::Constant[value=0]()
  %a : Tensor = aten::relu(%x)
  %b : Tensor = aten::relu(%x)
  %l : Tensor[] = prim::ListConstruct(%a, %b)
  %c : Tensor = aten::cat(%l, %zero)
  return (%c))");
  AliasAnalysis alias(model);
  EXPECT_FALSE(mayAlias(alias, valueOf(model, "a"), valueOf(model, "b")));
  EXPECT_FALSE(alias.isWritten(valueOf(model, "l")));

  Model taken = test::modelOf(R"(graph(%x : Tensor):
  %zero : int = prim::Constant[value=0]()
  %a : Tensor = aten::relu(%x)
  %b : Tensor = aten::relu(%x)
  %l : Tensor[] = prim::ListConstruct(%a)
  %m : Tensor[] = aten::append(%l, %b)
  %e : Tensor = aten::__getitem__(%l, %zero)
  %w : Tensor = aten::relu_(%e)
  %c : Tensor = aten::cat(%l, %zero)
  return (%c))");
  AliasAnalysis after(taken);
  EXPECT_TRUE(mayAlias(after, valueOf(taken, "a"), valueOf(taken, "b")));
  EXPECT_TRUE(after.isWritten(valueOf(taken, "a")));
  EXPECT_FALSE(mayAlias(after, valueOf(taken, "l"), valueOf(taken, "a")));
  EXPECT_EQ(intervalsOf(taken),
            "(1,6](3,4]"); // elements until the relu_, the list until the append
}

TEST(AliasAnalysis, dictsAndTheirViews) {
  Model model = test::modelOf(R"(graph(%x : Tensor):
  %k : str = prim::Constant[value="k"]()
  %one : int = prim::Constant[value=1]()
  %d : Dict(str, Tensor) = prim::DictConstruct()
  %a : Tensor = aten::relu(%x)
  aten::_set_item(%d, %k, %a)
  %items : (str, Tensor)[] = aten::items(%d)
  %i : (str, Tensor) = aten::__getitem__(%items, %one)
  %n : str, %e : Tensor = prim::TupleUnpack(%i)
  %w : Tensor = aten::add_(%e, %one, %one)
  return (%a))");
  AliasAnalysis alias(model);
  EXPECT_TRUE(alias.isWritten(valueOf(model, "d")));
  EXPECT_TRUE(mayAlias(alias, valueOf(model, "a"), valueOf(model, "e"))) << printed(model);
  EXPECT_TRUE(alias.isWritten(valueOf(model, "a")));
}

TEST(AliasAnalysis, blocksCountAsTheNodeAroundThem) {
  Model model = test::modelOf(R"(graph(%x : Tensor, %c : bool):
  %one : int = prim::Constant[value=1]()
  %y : Tensor = aten::relu(%x)
  %z : Tensor = prim::If(%c)
    block0():
      %w : Tensor = aten::add_(%y, %one, %one)
      -> (%w)
    block1():
      %v : Tensor = aten::neg(%x)
      -> (%v)
  %r : Tensor = aten::mul(%z, %x)
  return (%r))");
  AliasAnalysis alias(model);
  size_t memory = *alias.memoryOf(valueOf(model, "y"));
  EXPECT_TRUE(alias.memories()[memory].writtenInBlock);
  EXPECT_EQ(alias.memories()[memory].lastWrite, 2);
  EXPECT_TRUE(mayAlias(alias, valueOf(model, "v"), valueOf(model, "z")));
  EXPECT_EQ(intervalsOf(model), "(1,2]");
}

TEST(AliasAnalysis, loopsCarryMemory) {
  Model model = test::modelOf(R"(graph(%x : Tensor, %n : int):
  %one : int = prim::Constant[value=1]()
  %true : bool = prim::Constant[value=1]()
  %y : Tensor = aten::relu(%x)
  %z : Tensor = prim::Loop(%n, %true, %y)
    block0(%i : int, %h : Tensor):
      %g : Tensor = aten::add_(%h, %one, %one)
      -> (%true, %g)
  return (%z))");
  AliasAnalysis alias(model);
  EXPECT_TRUE(mayAlias(alias, valueOf(model, "y"), valueOf(model, "z")));
  EXPECT_TRUE(alias.isWritten(valueOf(model, "y")));
  EXPECT_FALSE(alias.isWritten(valueOf(model, "x")));
}

TEST(AliasAnalysis, batchNormWritesItsStatisticsInTrainingOnly) {
  auto text = [](const char *training) {
    return std::string(R"(graph(%x : Tensor, %w : Tensor, %b : Tensor, %m : Tensor, %v : Tensor):
  %t : bool = prim::Constant[value=)") +
           training + R"(]()
  %f : float = prim::Constant[value=0.10000000000000001]()
  %y : Tensor = aten::batch_norm(%x, %w, %b, %m, %v, %t, %f, %f, %t)
  return (%y))";
  };
  Model training = test::modelOf(text("1"), {0, 1, 2, 3});
  Model eval = test::modelOf(text("0"), {0, 1, 2, 3});
  EXPECT_TRUE(AliasAnalysis(training).isWritten(valueOf(training, "m")));
  EXPECT_TRUE(AliasAnalysis(training).isWritten(valueOf(training, "v")));
  EXPECT_FALSE(AliasAnalysis(training).isWritten(valueOf(training, "w")));
  EXPECT_FALSE(AliasAnalysis(eval).isWritten(valueOf(eval, "m")));
}

TEST(AliasAnalysis, evalDropoutReturnsItsInput) {
  Model model = test::modelOf(R"(graph(%x : Tensor):
  %f : bool = prim::Constant[value=0]()
  %p : float = prim::Constant[value=0.5]()
  %a : Tensor = aten::relu(%x)
  %y : Tensor = aten::dropout(%a, %p, %f)
  %z : Tensor = aten::relu_(%y)
  return (%a))");
  EXPECT_TRUE(AliasAnalysis(model).isWritten(valueOf(model, "a")));
  EXPECT_TRUE(AliasAnalysis(model)
                  .memories()[*AliasAnalysis(model).memoryOf(valueOf(model, "y"))]
                  .returned);
}

TEST(AliasAnalysis, unknownOperatorsWriteWhateverTheySee) {
  Model model = test::modelOf(R"(graph(%x : Tensor, %y : Tensor):
  %a : Tensor = aten::relu(%x)
  %b : Tensor = nobody::knows(%a)
  prim::Print(%y)
  return (%b))");
  AliasAnalysis alias(model);
  EXPECT_TRUE(alias.isWritten(valueOf(model, "a")));
  EXPECT_FALSE(alias.isWritten(valueOf(model, "y")));
  ASSERT_EQ(alias.effects().size(), 2u);
  EXPECT_TRUE(alias.effects()[0].unknown);
  EXPECT_FALSE(alias.effects()[1].unknown);
}

// A hundred thousand nodes in a chain of views, writes and lists: as many memories as fresh
// results, no more.
TEST(AliasAnalysis, largeGraphs) {
  std::string text = "graph(%v0 : Tensor):\n  %one : int = prim::Constant[value=1]()\n";
  constexpr int kSteps = 20000;
  for (int i = 0; i < kSteps; ++i) {
    std::string n = std::to_string(i), next = std::to_string(i + 1);
    text += "  %r" + n + " : Tensor = aten::relu(%v" + n + ")\n";
    text += "  %u" + n + " : Tensor = aten::unsqueeze(%r" + n + ", %one)\n";
    text += "  %w" + n + " : Tensor = aten::relu_(%u" + n + ")\n";
    text += "  %l" + n + " : Tensor[] = prim::ListConstruct(%w" + n + ", %v" + n + ")\n";
    text += "  %v" + next + " : Tensor = aten::cat(%l" + n + ", %one)\n";
  }
  text += "  return (%v" + std::to_string(kSteps) + ")\n";
  Model model = test::modelOf(text);
  AliasAnalysis alias(model);
  EXPECT_EQ(alias.memories().size(), size_t(3 * kSteps + 1));
  EXPECT_EQ(alias.intervals().size(), size_t(kSteps));
}

} // namespace
} // namespace pipec
