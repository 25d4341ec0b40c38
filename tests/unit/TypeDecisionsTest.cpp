// What the types of an example decide, noted in a plan: the same answers lead to the same graph
// whatever the order of the passes.
#include "compiler/ExampleTypes.h"
#include "ir/NodeOrigin.h"
#include "ir/OwnGraph.h"
#include "ir/text/CanonicalText.h"
#include "ir/text/ModelText.h"
#include "passes/PassManager.h"
#include "tests/support/Matchers.h"
#include "tests/support/ParseModel.h"

#include <gmock/gmock.h>

#include <ATen/ops/ones.h>
#include <torch/csrc/jit/ir/ir.h>

namespace pipec {
namespace {

/// In-place writes that only strides judge, one of them in a loop as long as a rank that is only
/// known later; two values of one description, of which one rank hangs on sizes; a part of a tensor
/// that is written, which makes the view beside it again.
const char *const kDecisions = R"(model {
  graph(%x : Tensor):
    %true : bool = prim::Constant[value=1]()
    %zero : int = prim::Constant[value=0]()
    %one : int = prim::Constant[value=1]()
    %three : int = prim::Constant[value=3]()
    %h : Tensor = aten::relu(%x)  # in a
    %h1 : Tensor = aten::add_(%h, %x, %one)  # in a
    %u : Tensor = aten::unsqueeze(%h, %one)  # in a
    %d : int = aten::dim(%u)  # in a
    %c : bool = aten::eq(%d, %three)  # in a
    %y : Tensor = prim::If(%c)  # in a
      block0():
        %m : Tensor = aten::tanh(%h)  # in a.b
        %m1 : Tensor = aten::mul_(%m, %x)  # in a.b
        -> (%m)
      block1():
        -> (%h)
    %s : Tensor = aten::squeeze(%y)  # in a
    %u2 : Tensor = aten::unsqueeze(%s, %one)  # in a
    %d2 : int = aten::dim(%u2)  # in a
    %c2 : bool = aten::eq(%d2, %three)  # in a
    %z : Tensor = prim::If(%c2)  # in a
      block0():
        %e : Tensor = aten::exp(%y)  # in a
        -> (%e)
      block1():
        -> (%y)
    %n : int = aten::dim(%y)  # in c
    %l : Tensor = prim::Loop(%n, %true, %y)  # in c
      block0(%i : int, %t : Tensor):
        %f : Tensor = aten::neg(%t)  # in c
        %f1 : Tensor = aten::add_(%f, %x, %one)  # in c
        -> (%true, %f)
    return (%z, %l)
}
)";

const char *const kUsual = "simplify";
/// The same passes the other way round.
const char *const kReversed =
    "fixpoint(functionalise-containers,fixpoint(dead-code,remove-inplace,cse,remove-list-mutation,"
    "unroll-loops,lower-tuples,fold-constants))";
/// With questions that the pipeline does not ask.
const char *const kMore = "remove-inplace,fold-constants,remove-inplace,unroll-loops,simplify";

struct Normal {
  std::vector<std::string> lines;
  TypeDecisions decisions;
};

/// As a compile does; with `given` as pipe-check --against does.
Normal normalise(const char *pipeline, const TypeDecisions *given) {
  AnyModel any = take(parseModel(kDecisions));
  nameOrigins(*std::get<Model>(any).graph);
  PassContext context;
  context.answers.given = given != nullptr;
  if (given)
    context.answers.decisions = *given;
  PassManager manager{PassManagerOptions{}};
  EXPECT_TRUE(succeeded(manager.addPipeline(pipeline)));
  EXPECT_TRUE(succeeded(manager.run(any, context)));
  for (bool changed = true; changed;) {
    Model &model = std::get<Model>(any);
    ++context.answers.round;
    if (!given) {
      EXPECT_TRUE(succeeded(inferTypes(model, {at::ones({2, 4})})));
    }
    changed = take(manager.run(any, context));
  }
  Model &model = std::get<Model>(any);
  eraseTypes(model);
  return {canonicalLines(model), context.answers.decisions};
}

TEST(TypeDecisions, ReplayWhateverTheOrderOfPasses) {
  const Normal usual = normalise(kUsual, nullptr);
  EXPECT_THAT(printDecisions(usual.decisions),
              testing::ElementsAre("aten::add_ #1 in a: form of both kept = yes, from round 1",
                                   "aten::add_ #1.0 in c: form of both kept = yes, from round 3",
                                   "aten::add_ #1.1 in c: form of both kept = yes, from round 3",
                                   "aten::dim #1 in a: rank = 3, from round 1",
                                   "aten::dim #1 in c: rank = 2, from round 2",
                                   "aten::mul_ #1 in a.b: form of both kept = yes, from round 2",
                                   "result 0 of aten::tanh #1 in a.b: rank = 2, from round 2",
                                   "result 0 of aten::unsqueeze #1 in a: rank = 3, from round 1"));
  const TypeDecisions others = {{{"nobody", 0, "rank"}, {{1, "2"}}}};
  EXPECT_NE(normalise(kUsual, &others).lines, usual.lines);
  const char *const orders[] = {kUsual, kReversed, kMore};
  for (const char *compiled : orders) {
    const Normal made = normalise(compiled, nullptr);
    EXPECT_EQ(made.lines, usual.lines) << compiled;
    for (const char *checked : orders)
      EXPECT_EQ(normalise(checked, &made.decisions).lines, made.lines)
          << checked << " with the answers of " << compiled;
  }
}

TEST(TypeDecisions, RoundTrip) {
  const TypeDecisions decisions = {
      {{"aten::add_ #2 in a", 0, "contiguous"}, {{1, "yes"}, {3, "no"}}},
      {{"aten::view #1", 1, "contiguous"}, {{2, "yes"}}},
      {{"input x", 0, "rank"}, {{1, "2"}}}};
  const std::vector<std::string> texts = printDecisions(decisions);
  EXPECT_THAT(texts, testing::ElementsAre("aten::add_ #2 in a: contiguous = yes, from round 1",
                                          "aten::add_ #2 in a: contiguous = no, from round 3",
                                          "aten::view #1, copy 2: contiguous = yes, from round 2",
                                          "input x: rank = 2, from round 1"));
  llvm::Expected<TypeDecisions> back = parseDecisions(texts);
  ASSERT_TRUE(succeeded(back));
  EXPECT_EQ(*back, decisions);
  for (const char *text :
       {"", "4:0-15,17", "a: b = c", "a: b = c, from round x", "a: b, from round 1",
        ": b = c, from round 1", "a = b, from round 1", "a, copy 1: b = c, from round 1",
        "a, copy 02: b = c, from round 1", "a: b = , from round 1"})
    EXPECT_TRUE(failedWith(parseDecisions({text}), ExitCode::BadArtifact, "expected OPERATOR"))
        << text;
  EXPECT_TRUE(failedWith(parseDecisions({texts[0], texts[0]}), ExitCode::BadArtifact, "once"));
}

TEST(TypeDecisions, HoldFromTheirRoundOnAndForCopies) {
  TypeAnswers answers;
  const TypeQuestion first{"a", 0, "rank"}, second{"a", 1, "rank"};
  answers.round = 2;
  answers.note(first, "4");
  answers.note(first, "3"); // the last word of a round
  for (const TypeQuestion &question : {first, second}) {
    ASSERT_NE(answers.find(question), nullptr);
    EXPECT_EQ(*answers.find(question), "3");
  }
  answers.note(second, "5");
  EXPECT_EQ(*answers.find(first), "3");
  EXPECT_EQ(*answers.find(second), "5");
  answers.round = 1;
  EXPECT_EQ(answers.find(first), nullptr);
}

std::vector<std::string> namesOf(const Model &model) {
  std::vector<std::string> names;
  for (torch::jit::Node *node : model.graph->nodes())
    if (node->kind() != c10::prim::Constant)
      names.push_back(nameWithOrigin(node));
  return names;
}

TEST(NodeOrigin, CountsWritesWithTheirPureFormsWithinAModule) {
  const Model model = take(parseModel(R"(model {
  graph(%x : Tensor):
    %one : int = prim::Constant[value=1]()
    %a : Tensor = aten::add(%x, %x, %one)  # in a
    %b : Tensor = aten::add_(%a, %x, %one)  # in a
    %c : Tensor = aten::add(%b, %x, %one)  # in b
    %d : Tensor = aten::neg(%c)
    return (%d)
}
)"));
  const std::vector<std::string> before = canonicalLines(model);
  nameOrigins(*model.graph);
  const std::vector<std::string> names = {"aten::add #1 in a", "aten::add_ #2 in a",
                                          "aten::add #1 in b", "aten::neg #1"};
  EXPECT_EQ(namesOf(model), names);
  nameOrigins(*model.graph); // they keep them
  EXPECT_EQ(namesOf(model), names);
  EXPECT_EQ(namesOf(withOwnGraph(model)), names);
  EXPECT_EQ(canonicalLines(model), before);
}

TEST(NodeOrigin, RoundsOfOuterLoopsComeFirst) {
  const Model model = take(parseModel(R"(model {
  graph(%x : Tensor):
    %a : Tensor = aten::relu(%x)  # in a
    %b : Tensor = aten::relu(%a)  # in a
    return (%b)
}
)"));
  nameOrigins(*model.graph);
  auto node = model.graph->nodes().begin();
  addIteration(*node, 0, 7); // the inner loop is unrolled first
  addIteration(*node, 0, 1);
  EXPECT_EQ(nameWithOrigin(*node), "aten::relu #1.1.7 in a");
  ++node;
  addIteration(*node, 0, 1);
  addIteration(*node, 1, 7);
  EXPECT_EQ(nameWithOrigin(*node), "aten::relu #2.1.7 in a");
  EXPECT_EQ(unrolledAround(*node), 2u);
}

} // namespace
} // namespace pipec
