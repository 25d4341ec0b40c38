// Module paths survive when a graph is written as text and read back.
#include "compiler/emit/CarryMetadata.h"

#include "ir/support/CommonSubsequence.h"
#include "ir/text/ModelText.h"
#include "tests/support/Matchers.h"
#include "tests/support/ParseModel.h"

#include <random>

namespace pipec {
namespace {

using Places = std::vector<std::pair<size_t, size_t>>;

TEST(CommonSubsequence, SkipsWhatOnlyOneHas) {
  EXPECT_EQ(commonSubsequence({1, 2, 3}, {1, 2, 3}), (Places{{0, 0}, {1, 1}, {2, 2}}));
  EXPECT_EQ(commonSubsequence({1, 2, 3}, {1, 9, 2, 3}), (Places{{0, 0}, {1, 2}, {2, 3}}));
  EXPECT_EQ(commonSubsequence({7, 1, 2}, {1, 2, 8}), (Places{{1, 0}, {2, 1}}));
  EXPECT_EQ(commonSubsequence({}, {1}), Places{});
  EXPECT_EQ(commonSubsequence({1, 5, 6, 2}, {1, 7, 8, 2}, 3), (Places{{0, 0}, {3, 3}}));
}

/// Against the textbook table.
TEST(CommonSubsequence, IsAsLongAsCanBe) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<size_t> a(random() % 12), b(random() % 12);
    for (std::vector<size_t> *sequence : {&a, &b})
      for (size_t &entry : *sequence)
        entry = random() % 4;
    std::vector<std::vector<size_t>> best(a.size() + 1, std::vector<size_t>(b.size() + 1));
    for (size_t i = 1; i <= a.size(); ++i)
      for (size_t j = 1; j <= b.size(); ++j)
        best[i][j] = a[i - 1] == b[j - 1] ? best[i - 1][j - 1] + 1
                                          : std::max(best[i - 1][j], best[i][j - 1]);
    const Places found = commonSubsequence(a, b);
    ASSERT_EQ(found.size(), best[a.size()][b.size()]) << "trial " << trial;
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(a[found[i].first], b[found[i].second]);
      EXPECT_TRUE(i == 0 ||
                  (found[i - 1].first < found[i].first && found[i - 1].second < found[i].second));
    }
  }
}

/// `to` without paths, with those that it gets from `from`.
std::string carried(const std::string &from, const std::string &to) {
  Model source = take(parseModel("model {\n  graph(%x : Tensor, %c : bool):\n" + from + "}\n"));
  Model target = take(parseModel("model {\n  graph(%x : Tensor, %c : bool):\n" + to + "}\n"));
  carryMetadata(*source.graph, *target.graph);
  TextOptions scopes;
  scopes.scopes = true;
  return take(toText(std::move(target), scopes));
}

void expectLine(const std::string &text, const std::string &operation, const std::string &end) {
  const size_t at = text.find(operation);
  ASSERT_NE(at, std::string::npos) << text;
  const std::string line = text.substr(at, text.find('\n', at) - at);
  EXPECT_EQ(line.substr(line.find(')') + 1), end) << text;
}

/// A constant list comes back as a list made of constants, of which the source has one much later.
TEST(CarryMetadata, ListsOfConstantsShiftNothing) {
  const std::string text = carried(R"(
    %zero : int = prim::Constant[value=0]()
    %none : NoneType = prim::Constant()
    %list : int[] = prim::Constant[value=[0]]()
    %a : Tensor = aten::sum(%x, %list, %c, %none)  # in first
    %b : Tensor = aten::relu(%a)  # in second
    %n : int = aten::size(%b, %zero)  # in third
    %m : int[] = prim::ListConstruct(%n, %zero)  # in third
    %y : Tensor = aten::view(%b, %m)  # in third
    return (%y)
)",
                                   R"(
    %zero : int = prim::Constant[value=0]()
    %none : NoneType = prim::Constant()
    %list : int[] = prim::ListConstruct(%zero)
    %a : Tensor = aten::sum(%x, %list, %c, %none)
    %b : Tensor = aten::relu(%a)
    %n : int = aten::size(%b, %zero)
    %m : int[] = prim::ListConstruct(%n, %zero)
    %y : Tensor = aten::view(%b, %m)
    return (%y)
)");
  expectLine(text, "prim::ListConstruct(", "  # in first");
  expectLine(text, "aten::sum(", "  # in first");
  expectLine(text, "aten::relu(", "  # in second");
  expectLine(text, "aten::view(", "  # in third");
}

/// The source has an operator and a branch that reading drops.
TEST(CarryMetadata, DroppedOperatorsShiftNothing) {
  const std::string text = carried(R"(
    %a : Tensor = aten::relu(%x)  # in dropped
    %u : Tensor = prim::If(%c)  # in dropped
      block0():
        %p : Tensor = aten::relu(%x)  # in dropped
        -> (%p)
      block1():
        -> (%x)
    %v : Tensor = prim::If(%c)  # in kept
      block0():
        %q : Tensor = aten::neg(%x)  # in kept.yes
        -> (%q)
      block1():
        %r : Tensor = aten::exp(%x)  # in kept.no
        -> (%r)
    %y : Tensor = aten::relu(%v)  # in last
    return (%y)
)",
                                   R"(
    %v : Tensor = prim::If(%c)
      block0():
        %q : Tensor = aten::neg(%x)
        -> (%q)
      block1():
        %r : Tensor = aten::exp(%x)
        -> (%r)
    %y : Tensor = aten::relu(%v)
    return (%y)
)");
  expectLine(text, "prim::If(", "  # in kept");
  expectLine(text, "aten::neg(", "  # in kept.yes");
  expectLine(text, "aten::exp(", "  # in kept.no");
  expectLine(text, "aten::relu(", "  # in last");
}

/// A wrong module would move cuts; none does not.
TEST(CarryMetadata, AnUnknownOperatorBetweenModulesHasNone) {
  const std::string text = carried(R"(
    %a : Tensor = aten::relu(%x)  # in first
    %y : Tensor = aten::neg(%a)  # in last
    return (%y)
)",
                                   R"(
    %a : Tensor = aten::relu(%x)
    %u : Tensor = aten::exp(%a)
    %y : Tensor = aten::neg(%a)
    return (%y)
)");
  expectLine(text, "aten::exp(", "");
  expectLine(text, "aten::neg(", "  # in last");
}

} // namespace
} // namespace pipec
