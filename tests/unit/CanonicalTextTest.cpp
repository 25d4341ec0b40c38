// What is a difference between two graphs for the compiler's proof, and what is none.
#include "ir/text/CanonicalText.h"

#include "ir/text/ModelText.h"
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

} // namespace
} // namespace pipec
