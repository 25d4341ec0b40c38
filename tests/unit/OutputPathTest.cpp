// Names of results: one path per leaf of every kind of tree, and back.
#include "ir/plan/OutputPath.h"

#include "tests/support/Matchers.h"
#include "tests/support/SamplePlan.h"

#include <set>

namespace pipec {
namespace {

OutputTree leaf(size_t number) {
  OutputTree tree;
  tree.leaf = number;
  return tree;
}

OutputTree node(OutputTree::Kind kind, std::vector<OutputTree> children,
                std::vector<std::string> keys = {}) {
  OutputTree tree;
  tree.kind = kind;
  tree.children = std::move(children);
  tree.keys = std::move(keys);
  return tree;
}

Signature signatureOf(OutputTree tree, size_t leaves) {
  Signature signature;
  signature.outputs = std::move(tree);
  signature.leaves.resize(leaves);
  return signature;
}

using Paths = std::vector<std::string>;
using Kind = OutputTree::Kind;

TEST(OutputPath, oneTensorIsTheResult) {
  EXPECT_EQ(outputPaths(signatureOf(leaf(0), 1)), Paths{"result"});
}

TEST(OutputPath, namesElementsFieldsAndKeys) {
  OutputTree layer = node(Kind::Tuple, {leaf(1), leaf(2)});
  OutputTree tree =
      node(Kind::Dict, {leaf(0), node(Kind::List, {layer, leaf(3)})}, {"logits", "past"});
  EXPECT_EQ(outputPaths(signatureOf(tree, 4)), (Paths{"logits", "past.0.0", "past.0.1", "past.1"}));

  OutputTree named = node(Kind::Tuple, {leaf(0), leaf(1)}, {"scores", "boxes"});
  EXPECT_EQ(outputPaths(signatureOf(named, 2)), (Paths{"scores", "boxes"}));
  for (const char *path : {"boxes", "1"}) // both ways to name a field lead to it
    EXPECT_EQ(take(leafOfPath(signatureOf(named, 2), path)), 1U) << path;
  OutputTree inner = node(Kind::Dict, {leaf(0), named}, {"0", "more"});
  inner.children[1].children[0].leaf = 2;
  for (const char *path : {"more.scores", "more.0"})
    EXPECT_EQ(take(leafOfPath(signatureOf(inner, 3), path)), 2U) << path;
  EXPECT_TRUE(failedWith(leafOfPath(signatureOf(inner, 3), "1.0"), ExitCode::Usage,
                         "the model has no result 1.0"))
      << "a key of a dict has no place";
  named.keys.clear(); // as before format 1.1
  EXPECT_EQ(outputPaths(signatureOf(named, 2)), (Paths{"0", "1"}));

  EXPECT_EQ(outputPaths(richPlan().signature), (Paths{"scores.logits", "scores.more.0", //
                                                      "scores.more.1"}));
}

TEST(OutputPath, keysThatAreNoWordAreQuoted) {
  OutputTree inner = node(Kind::Tuple, {leaf(1), leaf(2)});
  OutputTree tree =
      node(Kind::Dict, {leaf(0), inner, leaf(3), leaf(4), leaf(5), leaf(6), leaf(7), leaf(8)},
           {"a.0", "a", "", "b c", "x=1", "\"q\"", "\x1b[31m", "gr\xc3\xb6\xc3\x9f"});
  const Paths paths = outputPaths(signatureOf(tree, 9));
  EXPECT_EQ(paths, (Paths{"\"a.0\"", "a.0", "a.1", "\"\"", "\"b c\"", "\"x=1\"", "\"\\\"q\\\"\"",
                          "\"\\u001b[31m\"", "gr\xc3\xb6\xc3\x9f"}));
  EXPECT_EQ(std::set<std::string>(paths.begin(), paths.end()).size(), paths.size());
}

TEST(OutputPath, everyPathLeadsBack) {
  const Signature signature = richPlan().signature;
  const Paths paths = outputPaths(signature);
  for (size_t l = 0; l < paths.size(); ++l) {
    EXPECT_EQ(outputPath(signature, l), paths[l]);
    llvm::Expected<size_t> back = leafOfPath(signature, paths[l]);
    ASSERT_TRUE(succeeded(back));
    EXPECT_EQ(*back, l);
  }
  EXPECT_TRUE(failedWith(leafOfPath(signature, "scores.logit"), ExitCode::Usage,
                         "the model has no result scores.logit"));
}

TEST(OutputPath, aDictWithOtherKeysInOtherRunsIsOneResult) {
  Signature signature = signatureOf(leaf(0), 1);
  signature.leaves.front().type = "Dict(str, Tensor)";
  EXPECT_TRUE(failedWith(leafOfPath(signature, "loss"), ExitCode::Usage,
                         "return the value beside the dict, as in (loss, dict)"));
}

TEST(OutputPath, aBrokenTreeHasNumbersInstead) {
  const Signature signature = signatureOf(node(Kind::Tuple, {leaf(0), leaf(9)}), 2);
  EXPECT_EQ(outputPaths(signature), (Paths{"0", "output 1"}));
  EXPECT_EQ(outputPath(signature, 7), "output 7");
}

} // namespace
} // namespace pipec
