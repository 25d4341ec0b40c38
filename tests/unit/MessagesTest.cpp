// What messages are made of: suggestions, short tracebacks, names, guesses from sizes.
#include "ir/BatchDimHint.h"
#include "ir/ScriptTraceback.h"
#include "ir/SpoiltNames.h"
#include "ir/plan/Words.h"

#include <gtest/gtest.h>

#include <ATen/Functions.h>

namespace pipec {
namespace {

TEST(Words, SuggestsOnlyWhatIsClose) {
  std::vector<std::string> names = {"encoder", "decoder", "decoder.head", "norm"};
  EXPECT_EQ(nearestName("encodr", names), "encoder");
  EXPECT_EQ(nearestName("norn", names), "norm");
  EXPECT_EQ(nearestName("head", names), "decoder.head");
  EXPECT_EQ(nearestName("quite-another", names), "");
  EXPECT_EQ(nearestName("", names), "");
  EXPECT_EQ(didYouMean("norn", names, "see there"), "did you mean norm?");
  EXPECT_EQ(didYouMean("xyz", names, "see there"), "see there");
}

TEST(Words, Counted) {
  EXPECT_EQ(counted(1, "cut"), "1 cut");
  EXPECT_EQ(counted(0, "cut"), "0 cuts");
  EXPECT_EQ(counted(2, "micro-batch"), "2 micro-batches");
}

constexpr const char *kMessage =
    "The following operation failed in the TorchScript interpreter.\n"
    "Traceback of TorchScript, serialized code (most recent call last):\n"
    "  File \"code/__torch__.py\", line 5, in forward\n"
    "    return (self.inner).forward(x, )\n"
    "            ~~~~~~~~~~~~~~~~~~~ <--- HERE\n"
    "\n"
    "Traceback of TorchScript, original code (most recent call last):\n"
    "  File \"/home/me/net.py\", line 12, in forward\n"
    "        return self.inner(x)\n"
    "               ~~~~~~~~~~ <--- HERE\n"
    "  File \"layer.py\", line 7, in pipec_forward\n"
    "        return x + y\n"
    "               ~~~~~ <--- HERE\n"
    "\n"
    "    more code\n"
    "builtins.RuntimeError: sizes differ:\n"
    "  4 and 5\n";

TEST(ScriptTraceback, PutsTheReasonFirst) {
  EXPECT_EQ(reasonFirst(kMessage), "RuntimeError: sizes differ:\n"
                                   "  4 and 5\n"
                                   "  at net.py:12 in forward\n"
                                   "  at layer.py:7");
}

TEST(ScriptTraceback, LeavesTheMiddleOfManyCallsOut) {
  std::string message = "The following operation failed in the TorchScript interpreter.\n"
                        "Traceback of TorchScript, original code (most recent call last):\n";
  for (int i = 0; i < 20; ++i)
    message += "  File \"net.py\", line " + std::to_string(i) + ", in f\n    x\n    ~ <--- HERE\n";
  std::string text = reasonFirst(message + "ValueError: no");
  EXPECT_EQ(text, "ValueError: no\n  at net.py:0 in f\n  at net.py:1 in f\n  at net.py:2 in f\n"
                  "  ... 11 more calls\n"
                  "  at net.py:14 in f\n  at net.py:15 in f\n  at net.py:16 in f\n"
                  "  at net.py:17 in f\n  at net.py:18 in f\n  at net.py:19 in f");
}

TEST(ScriptTraceback, NeedsNoSourceLines) {
  EXPECT_EQ(reasonFirst("Traceback of TorchScript, original code (most recent call last):\n"
                        "builtins.ValueError: no"),
            "ValueError: no");
}

TEST(ScriptTraceback, LeavesOtherMessagesAlone) {
  EXPECT_EQ(reasonFirst("size 4 is invalid"), "size 4 is invalid");
  EXPECT_EQ(reasonFirst("a\n  ~ <--- HERE\nb"), "a\n  ~ <--- HERE\nb");
}

TEST(SpoiltNames, AreReadable) {
  EXPECT_EQ(spoiltName(" ill formed octal specifier:\n  File \"code/x.py\", line 11\n"
                       "    x = getattr(self, \"schicht_\\0)+\\/-,\")\n"
                       "                      ~~~~~~~~~~~~~~~~~~ <--- HERE\n    c = self.c\n"),
            "schicht_ä");
  EXPECT_EQ(spoiltName("ill formed octal specifier"), "");
  EXPECT_EQ(spoiltName("expected a valid token but found '\xc3' here:\n  def f(s: __torch__.Arg,\n"
                       "    größe: Tensor) -> Tensor:\n      ~ <--- HERE\n"),
            "größe");
  EXPECT_EQ(spoiltName("expected a valid token but found '$' here:\n  a $ b"), std::nullopt);
  EXPECT_EQ(spoiltName("Unknown builtin op: a::b"), std::nullopt);
}

std::string suggested(std::vector<std::vector<int64_t>> shapes) {
  Signature signature;
  std::vector<c10::IValue> inputs;
  for (size_t i = 0; i < shapes.size(); ++i) {
    signature.inputs.emplace_back();
    signature.inputs.back().name = std::string(1, static_cast<char>('a' + i));
    inputs.emplace_back(at::zeros(shapes[i]));
  }
  return suggestBatchDims(signature, inputs);
}

TEST(BatchDimHint, NamesTheDimensionThatHasTheBatch) {
  EXPECT_EQ(suggested({{4, 6, 8}, {2, 4, 8}}), "b=1");
  EXPECT_EQ(suggested({{6, 4, 8}, {1, 4, 8}, {1, 4, 8}}), "a=1,b=1,c=1");
  EXPECT_EQ(suggested({{4, 6}, {1, 4}, {3, 3}}), "b=1");
}

TEST(BatchDimHint, SaysNothingWhereSizesAgreeOrNothingFits) {
  EXPECT_EQ(suggested({{4, 6}, {4, 8}}), "");
  EXPECT_EQ(suggested({{4, 6}, {3, 7}}), "");
  EXPECT_EQ(suggested({{4, 8}, {3, 8}}), ""); // features, not samples
  EXPECT_EQ(suggested({{4, 6}}), "");
}

} // namespace
} // namespace pipec
