// What messages are made of: suggestions, short tracebacks, names, guesses from sizes.
#include "ir/ScriptTraceback.h"
#include "ir/batch/SuggestedDims.h"
#include "ir/support/Reproducer.h"
#include "ir/support/UnfinishedOutputs.h"
#include "ir/support/Words.h"
#include "ir/torchfile/UnsavableNames.h"
#include "ir/values/ArgumentText.h"
#include "ir/values/Arguments.h"
#include "tests/support/Matchers.h"
#include "tests/unit/TempDir.h"

#include <gtest/gtest.h>

#include <ATen/Functions.h>
#include <ATen/core/Dict.h>
#include <ATen/core/List.h>

#include <fstream>

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

TEST(ScriptTraceback, ReadsTheStackOfATrace) {
  EXPECT_EQ(reasonFirst("Traceback of TorchScript, serialized code (most recent call last):\n"
                        "  File \"code/__torch__.py\", line 5, in forward\n"
                        "    return torch.view(x, [4])\n"
                        "           ~~~~~~~~~~ <--- HERE\n"
                        "\n"
                        "Traceback of TorchScript, original code (most recent call last):\n"
                        "/home/me/net.py(9): forward\n"
                        "/usr/lib/torch/nn/modules/module.py(1769): _slow_forward\n"
                        "/home/me/net.py(11): <module>\n"
                        "RuntimeError: shape '[4]' is invalid for input of size 16\n"),
            "RuntimeError: shape '[4]' is invalid for input of size 16\n"
            "  at net.py:9 in forward");
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

TEST(UnsavableNames, AreReadable) {
  EXPECT_EQ(unsavableName(" ill formed octal specifier:\n  File \"code/x.py\", line 11\n"
                          "    x = getattr(self, \"schicht_\\0)+\\/-,\")\n"
                          "                      ~~~~~~~~~~~~~~~~~~ <--- HERE\n    c = self.c\n"),
            "schicht_ä");
  EXPECT_EQ(unsavableName("ill formed octal specifier"), "");
  EXPECT_EQ(
      unsavableName("expected a valid token but found '\xc3' here:\n  def f(s: __torch__.Arg,\n"
                    "    größe: Tensor) -> Tensor:\n      ~ <--- HERE\n"),
      "größe");
  EXPECT_EQ(unsavableName("expected a valid token but found '$' here:\n  a $ b"), std::nullopt);
  EXPECT_EQ(unsavableName("Unknown builtin op: a::b"), std::nullopt);
}

TEST(Arguments, AreOneShortLine) {
  Signature signature;
  for (const char *name : {"x", "pair", "many", "named", "more"}) {
    signature.inputs.emplace_back();
    signature.inputs.back().name = name;
  }
  c10::Dict<std::string, at::Tensor> named;
  named.insert("k", at::ones({3}, at::kBool));
  const std::vector<c10::IValue> values = {
      at::ones({2, 64}, at::kLong),
      c10::ivalue::Tuple::create({1, 0.5, std::string(50, 'a'), c10::IValue()}),
      c10::List<int64_t>({1, 2, 3, 4, 5, 6}), named, true};
  const std::string text = "x: int64[2,64], pair: (1, 0.5, \"" + std::string(40, 'a') +
                           "...\", None), many: [1, 2, 3, ... 6 in all], "
                           "named: {\"k\": bool[3]}, more: True";
  EXPECT_EQ(argumentsText(signature, values), text);
  EXPECT_TRUE(failedWith(withArguments(makeError(ExitCode::Usage, "no"), signature, values),
                         ExitCode::Usage, "no\n  called with " + text));
  ErrorText other = describe(withArguments(makeError(ExitCode::Internal, "no"), signature, values));
  EXPECT_EQ(other.message, "no"); // not the user's doing
}

TEST(Reproducer, AppearsWholeUnderTheFirstFreeNumber) {
  TempDir dir;
  std::filesystem::create_directory(dir.path("pipec-reproducer-1"));
  Reproducer made = take(Reproducer::begin(dir.path("")));
  ASSERT_TRUE(succeeded(made.write("passes/01-inline.ir", "text")));
  EXPECT_FALSE(std::filesystem::exists(dir.path("pipec-reproducer-2")));
  EXPECT_EQ(take(made.publish()), dir.path("/pipec-reproducer-2"));
  EXPECT_TRUE(std::filesystem::exists(dir.path("pipec-reproducer-2/passes/01-inline.ir")));
  EXPECT_EQ(dir.entries(), (std::vector<std::string>{"pipec-reproducer-1", "pipec-reproducer-2"}));
}

TEST(UnfinishedPaths, ShowsAHandlerWhatIsThere) {
  UnfinishedPaths paths;
  auto shown = [&] {
    std::string text;
    paths.forEachAfterCrash([&](const char *path) { text += std::string(path) + " "; });
    return text;
  };
  for (const char *path : {"a", "b", "b", "c"})
    paths.insert(path);
  paths.insert(std::string(5000, 'x')); // too long for a handler
  EXPECT_EQ(shown(), "a b c ");
  EXPECT_TRUE(paths.erase("b"));
  EXPECT_FALSE(paths.erase("b"));
  EXPECT_EQ(shown(), "a c ");
  paths.insert("d");
  EXPECT_EQ(shown(), "a d c ");
  EXPECT_TRUE(paths.contains(std::string(5000, 'x')));
  paths.clear();
  EXPECT_EQ(shown(), "");
  EXPECT_TRUE(paths.empty());
}

TEST(Reproducer, LeavesNothingWithoutPublication) {
  TempDir dir;
  {
    Reproducer made = take(Reproducer::begin(dir.path("")));
    ASSERT_TRUE(succeeded(made.write("README.txt", "text")));
    EXPECT_TRUE(unfinishedOutputs().paths.contains(made.directory())); // Ctrl-C removes it
    Reproducer moved = std::move(made);
    EXPECT_EQ(dir.entries().size(), 1u);
  }
  EXPECT_TRUE(dir.entries().empty());
  EXPECT_TRUE(unfinishedOutputs().paths.empty());
  EXPECT_TRUE(failedWith(Reproducer::begin(dir.path("nowhere")), ExitCode::IO, "nowhere"));
}

TEST(Reproducer, IsNotMadeAnewWhenTheProcessEnds) {
  TempDir dir;
  EXPECT_EXIT(
      {
        Reproducer made = take(Reproducer::begin(dir.path("")));
        const std::string passes = made.directory() + "/passes";
        bool ok = bool(succeeded(made.write("passes/01-inline.ir", "text")));
        abandonUnfinishedOutputs();
        ok = ok &&
             bool(failedWith(made.write("passes/02-fuse.ir", "text"), ExitCode::Other,
                             "the process is ending")) &&
             makeDirectories(passes) == std::errc::operation_canceled && dir.entries().empty();
        _exit(ok ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST(Reproducer, SaysWhatHappenedAndWhere) {
  EXPECT_EQ(shellText({"pipe-run", "a b", "f32[2]", "it's", ""}),
            "pipe-run 'a b' 'f32[2]' 'it'\\''s' ''");
  const ErrorText error = {ExitCode::Internal, "broken", ""};
  const std::string readme = reproducerReadme(error, {"pipe-run", "m.pt"}, "more\n");
  for (const char *text : {"error: broken\n", "command pipe-run m.pt\n", "LibTorch 2.", "more\n"})
    EXPECT_NE(readme.find(text), std::string::npos) << readme;
  EXPECT_FALSE(mentionsReproducer(error));
  for (const ErrorText &told : {withReproducer(error, std::string("./here")),
                                withReproducer(error, makeError(ExitCode::IO, "disk full"))})
    EXPECT_TRUE(mentionsReproducer(told)) << told.help;
}

std::string suggested(std::vector<std::vector<int64_t>> shapes,
                      std::vector<std::optional<int64_t>> dims = {}) {
  Signature signature;
  std::vector<c10::IValue> inputs;
  for (size_t i = 0; i < shapes.size(); ++i) {
    signature.inputs.emplace_back();
    signature.inputs.back().name = std::string(1, static_cast<char>('a' + i));
    inputs.emplace_back(at::zeros(shapes[i]));
  }
  for (size_t i = 0; i < dims.size(); ++i)
    signature.inputs[i].batchDim = dims[i];
  return suggestBatchDims(signature, inputs);
}

TEST(BatchDimGuess, NamesTheDimensionThatHasTheBatch) {
  EXPECT_EQ(suggested({{4, 6, 8}, {2, 4, 8}}), "b=1");
  EXPECT_EQ(suggested({{6, 4, 8}, {1, 4, 8}, {1, 4, 8}}), "a=1,b=1,c=1");
  EXPECT_EQ(suggested({{4, 6}, {1, 4}, {3, 3}}), "b=1");
}

TEST(BatchDimGuess, FollowsTheDimensionThatIsNamed) {
  EXPECT_EQ(suggested({{5, 4, 8}, {2, 4, 8}, {4, 5}}, {1}), "a=1,b=1");
  EXPECT_EQ(suggested({{5, 4, 8}, {2, 4, 8}, {4, 5}}, {std::nullopt, 1, 0}), "a=1,b=1");
  EXPECT_EQ(suggested({{5, 4, 8}, {2, 4, 8}, {4, 5}}, {1, 1, 0}), "");
}

TEST(BatchDimGuess, SaysNothingWhereASampleMayHaveSeveralRows) {
  EXPECT_EQ(suggested({{4, 6}, {8, 4}}), "");
  EXPECT_EQ(suggested({{2, 6, 8}, {4, 2, 8}}), "");
  EXPECT_EQ(suggested({{2, 6, 8}, {4, 2, 8}}, {std::nullopt, 1}), "");
  EXPECT_EQ(suggested({{4, 6}, {6, 4}}), "b=1");
  EXPECT_EQ(suggested({{8, 4, 6}, {1, 4, 6}}), "a=1,b=1"); // steps, then samples
}

TEST(BatchDimGuess, SaysNothingWhereSizesAgreeOrNothingFits) {
  EXPECT_EQ(suggested({{4, 6}, {4, 8}}), "");
  EXPECT_EQ(suggested({{4, 6}, {3, 7}}), "");
  EXPECT_EQ(suggested({{4, 8}, {3, 8}}), ""); // features, not samples
  EXPECT_EQ(suggested({{4, 6}}), "");
}

} // namespace
} // namespace pipec
