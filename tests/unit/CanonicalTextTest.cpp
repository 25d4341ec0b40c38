// What is a difference between two graphs for the compiler's proof, and what is none.
#include "ir/CanonicalText.h"

#include "ir/ModelText.h"
#include "tests/support/Matchers.h"

namespace pipec {
namespace {

/// LibTorch orders results of branches, and what loops carry, by their first uses, which are others
/// in a stage than in the whole model.
TEST(CanonicalLines, OrderOfResultsIsNoDifference) {
  auto linesOf = [](const std::string &results, const std::string &first, const std::string &second,
                    const std::string &carried) {
    return canonicalLines(take(parseModel("model {\n  graph(%x : Tensor, %c : bool, %n : int):\n"
                                          "    %one : int = prim::Constant[value=1]()\n"
                                          "    %true : bool = prim::Constant[value=1]()\n"
                                          "    %s : Tensor = aten::sin(%x)\n" +
                                          ("    " + results) +
                                          " = prim::If(%c)\n"
                                          "      block0():\n"
                                          "        %p : Tensor = aten::neg(%x)\n"
                                          "        -> (" +
                                          first +
                                          ")\n"
                                          "      block1():\n"
                                          "        %q : Tensor = aten::relu(%x)\n"
                                          "        -> (" +
                                          second + ")\n" + carried +
                                          "    %y : Tensor = aten::sub(%b, %a, %one)\n"
                                          "    %z : Tensor = aten::sub(%y, %v, %one)\n"
                                          "    %r : Tensor = aten::sub(%z, %u, %one)\n"
                                          "    return (%r)\n}\n")));
  };
  const std::string loop = "    %u : Tensor, %v : Tensor, %w : Tensor = "
                           "prim::Loop(%n, %true, %s, %s, %x)\n"
                           "      block0(%i : int, %d : Tensor, %e : Tensor, %f : Tensor):\n"
                           "        %g : Tensor = aten::add(%e, %f, %one)\n"
                           "        -> (%true, %g, %d, %f)\n";
  const std::string turned = "    %w : Tensor, %v : Tensor, %u : Tensor = "
                             "prim::Loop(%n, %true, %x, %s, %s)\n"
                             "      block0(%i : int, %f : Tensor, %e : Tensor, %d : Tensor):\n"
                             "        %g : Tensor = aten::add(%e, %f, %one)\n"
                             "        -> (%true, %f, %d, %g)\n";
  const std::string other = "    %u : Tensor, %v : Tensor, %w : Tensor = "
                            "prim::Loop(%n, %true, %s, %s, %x)\n"
                            "      block0(%i : int, %d : Tensor, %e : Tensor, %f : Tensor):\n"
                            "        %g : Tensor = aten::add(%d, %f, %one)\n"
                            "        -> (%true, %g, %d, %f)\n";
  const std::string ab = "%a : Tensor, %b : Tensor", ba = "%b : Tensor, %a : Tensor";
  const std::vector<std::string> lines = linesOf(ab, "%p, %x", "%x, %q", loop);
  EXPECT_EQ(linesOf(ba, "%x, %p", "%q, %x", loop), lines);
  EXPECT_EQ(linesOf(ab, "%p, %x", "%x, %q", turned), lines);
  EXPECT_NE(linesOf(ab, "%x, %p", "%x, %q", loop), lines);
  EXPECT_NE(linesOf(ba, "%p, %x", "%x, %q", loop), lines);
  EXPECT_NE(linesOf(ab, "%p, %x", "%x, %q", other), lines);
}

/// What is read of a list hangs on when it is read, where somebody changes the list: under its own
/// name, as what a branch gave, or from round to round.
TEST(CanonicalLines, WhenAChangedListIsReadIsADifference) {
  const std::string append = "    %more : int[] = aten::append(%xs, %n)\n";
  auto linesOf = [](const std::string &read, const std::string &change, bool after) {
    return canonicalLines(take(parseModel("model {\n  graph(%x : Tensor, %c : bool, %n : int):\n"
                                          "    %one : int = prim::Constant[value=1]()\n"
                                          "    %true : bool = prim::Constant[value=1]()\n"
                                          "    %xs : int[] = prim::ListConstruct(%n)\n"
                                          "    %ys : int[] = prim::ListConstruct(%one)\n"
                                          "    %ws : int[] = prim::ListConstruct(%one)\n"
                                          "    %zs : int[] = prim::If(%c)\n"
                                          "      block0():\n"
                                          "        -> (%xs)\n"
                                          "      block1():\n"
                                          "        -> (%ys)\n" +
                                          (after ? change + read : read + change) +
                                          "    %y : Tensor = aten::add(%x, %k, %one)\n"
                                          "    return (%y)\n}\n")));
  };
  const std::string round = "    %k : int = prim::Loop(%n, %true, %one)\n"
                            "      block0(%i : int, %m : int):\n"
                            "        %l : int = aten::len(%zs)\n"
                            "        -> (%true, %l)\n";
  for (const std::string &read :
       {std::string("    %k : int = aten::len(%xs)\n"),
        std::string("    %k : int = aten::len(%zs)\n"),
        std::string("    %k : int = aten::__getitem__(%xs, %one)\n"), round})
    EXPECT_NE(linesOf(read, append, true), linesOf(read, append, false)) << read;
  const std::string unchanged = "    %k : int = aten::len(%ws)\n";
  EXPECT_EQ(linesOf(unchanged, append, true), linesOf(unchanged, append, false));
}

} // namespace
} // namespace pipec
