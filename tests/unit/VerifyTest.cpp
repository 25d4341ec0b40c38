// What the verifiers refuse, one message each.
#include "ir/Verify.h"

#include "ir/GraphVerify.h"
#include "ir/text/ModelText.h"
#include "tests/support/Matchers.h"
#include "tests/support/ParseModel.h"
#include "tests/support/TestModels.h"

#include <functional>

namespace pipec {
namespace {

Model sampleModel() {
  llvm::Expected<Model> parsed = parseModel(R"(model {
  input x : Tensor
  output 0 : Tensor merge=list
  attribute w parameter float32[2,2] storage=0 data=seed(1)
  attribute s buffer float32[2] storage=1
  attribute k value int value=3
  state s
  graph(%x : Tensor, %w : Tensor, %s : Tensor, %k : int):
    %0 : Tensor = aten::matmul(%x, %w)
    return (%0, %s)
})");
  EXPECT_TRUE(succeeded(parsed));
  return std::move(*parsed);
}

StagedModel staged() {
  llvm::Expected<StagedModel> parsed = parseStagedModel(R"(staged {
  input x : Tensor
  outputs (0, 1)
  output 0 : Tensor merge=list
  output 1 : Tensor merge=list
  attribute w parameter float32[2,2] storage=0 data=seed(1)
  stage 0 {
    input x : Tensor user=0
    output h : Tensor channels=[0]
    uses w parameter uses=1 bytes=16
    graph(%x : Tensor, %w : Tensor):
      %2 : Tensor = aten::matmul(%x, %w)
      return (%2)
  }
  stage 1 {
    input h : Tensor channel=0
    output y : Tensor leaves=[0]
    graph(%h : Tensor):
      %2 : Tensor = aten::relu(%h)
      return (%2)
  }
  stage 2 {
    input h : Tensor channel=0
    output y : Tensor leaves=[1]
    uses w parameter uses=2 bytes=16 channel=1
    graph(%h : Tensor, %w : Tensor):
      %1 : Tensor = aten::matmul(%h, %w)
      %2 : Tensor = aten::matmul(%1, %w)
      return (%2)
  }
  channel h 0:0 -> 1:0, 2:0 : Tensor skip
  channel w 0:0 -> 2:0 : Tensor weight
  tie [w] transmit owner=0 stages=[0,2]
})");
  EXPECT_TRUE(succeeded(parsed));
  return std::move(*parsed);
}

struct ModelCase {
  const char *message;
  std::function<void(Model &)> damage;
};

void setGraph(Model &target, const std::string &graph) {
  llvm::Expected<Model> parsed = parseModel("model {\n" + graph + "\n}");
  EXPECT_TRUE(succeeded(parsed));
  target.graph = parsed->graph;
}

TEST(Verify, AcceptsWhatIsRight) {
  EXPECT_TRUE(succeeded(verify(sampleModel())));
  EXPECT_TRUE(succeeded(verify(staged())));
}

TEST(Verify, RefusesDamagedModels) {
  const std::string inputs = "graph(%x : Tensor, %w : Tensor, %s : Tensor, %k : int):\n";
  const std::vector<ModelCase> cases = {
      {"the model has no graph", [](Model &m) { m.graph = nullptr; }},
      {"expected 5 inputs (2 arguments, 3 attributes), got 4",
       [](Model &m) { m.signature.inputs.emplace_back().name = "y"; }},
      {"input x: this name appears twice",
       [](Model &m) { m.signature.inputs.push_back(m.signature.inputs[0]); }},
      {"expected 1 outputs (1 results, 0 states), got 2", [](Model &m) { m.stateOutputs.clear(); }},
      {"state output 0: expected an attribute below 3, got 9",
       [](Model &m) { m.stateOutputs = {9}; }},
      {"outputs: output result: expected number 0, got 4",
       [](Model &m) { m.signature.outputs.leaf = 4; }},
      {"outputs: expected 1 in the tree, got 0",
       [](Model &m) {
         m.signature.outputs = OutputTree{OutputTree::Kind::List, {}, {}, "", 0};
       }},
      {"outputs: expected 1 keys of a dict, got 0",
       [](Model &m) {
         m.signature.outputs = OutputTree{OutputTree::Kind::Dict, {OutputTree()}, {}, "", 0};
       }},
      {"attribute w: this name appears twice", [](Model &m) { m.attributes[1].name = "w"; }},
      {"attribute s: its other name w appears twice",
       [](Model &m) { m.attributes[1].otherNames = {"w"}; }},
      {"attribute s: storages are numbered in order: expected at most 1, got 2",
       [](Model &m) { m.attributes[1].storage = 2; }},
      {"attribute k: expected storage -1", [](Model &m) { m.attributes[2].storage = 0; }},
      {"aten::no_such_op: no such operator",
       [&](Model &m) {
         setGraph(m, inputs + "  %0 : Tensor = aten::no_such_op(%x)\n  return (%0, %s)");
       }},
      {"prim::GetAttr: nothing reads a module after lower-attributes",
       [&](Model &m) {
         setGraph(m, inputs + "  %0 : Tensor = prim::GetAttr[name=\"a\"](%x)\n  return (%0, %s)");
       }},
  };
  for (const ModelCase &entry : cases) {
    Model damaged = sampleModel();
    entry.damage(damaged);
    EXPECT_TRUE(failedWith(verify(damaged), ExitCode::Unreadable, entry.message));
  }
}

struct StagedCase {
  const char *message;
  std::function<void(StagedModel &)> damage;
};

TEST(Verify, RefusesDamagedStagedModels) {
  const std::vector<StagedCase> cases = {
      {"the staged model has no stage", [](StagedModel &m) { m.stages.clear(); }},
      {"stage 1: it has no graph", [](StagedModel &m) { m.stages[1].graph = nullptr; }},
      {"stage 0: expected 1 graph inputs (1 ports, 0 attributes), got 2",
       [](StagedModel &m) { m.stages[0].plan.attributes.clear(); }},
      {"stage 1: expected 0 graph outputs, got 1",
       [](StagedModel &m) { m.stages[1].plan.outputs.clear(); }},
      {"stage 0: input x: expected a user input below 1, got 3",
       [](StagedModel &m) { m.stages[0].plan.inputs[0].index = 3; }},
      {"stage 1: input h: expected a channel below 2, got 7",
       [](StagedModel &m) { m.stages[1].plan.inputs[0].index = 7; }},
      {"stage 1: input h: expected type Tensor, got int",
       [](StagedModel &m) { m.stages[1].plan.inputs[0].type = "int"; }},
      {"stage 2: input h: channel h does not lead to it",
       [](StagedModel &m) { m.channels[0].to.pop_back(); }},
      {"stage 0: uses q: the model has no such attribute",
       [](StagedModel &m) { m.stages[0].plan.attributes[0].name = "q"; }},
      {"stage 2: uses w: the graph reads it 2 times, got uses=3",
       [](StagedModel &m) { m.stages[2].plan.attributes[0].uses = 3; }},
      {"stage 2: uses w: channel 0 is not a weight channel",
       [](StagedModel &m) { m.stages[2].plan.attributes[0].channel = 0; }},
      {"stage 0: output h: expected a channel below 2, got 5",
       [](StagedModel &m) { m.stages[0].plan.outputs[0].channels = {5}; }},
      {"stage 1: output y: channel h starts elsewhere",
       [](StagedModel &m) { m.stages[1].plan.outputs[0].channels = {0}; }},
      {"stage 0: output h: channel h has type Tensor, got int",
       [](StagedModel &m) { m.stages[0].plan.outputs[0].type = "int"; }},
      {"stage 1: output y: expected an output of the model below 2, got 2",
       [](StagedModel &m) { m.stages[1].plan.outputs[0].leaves = {2}; }},
      {"stage 1: output y: expected the state of an attribute below 0, got 0",
       [](StagedModel &m) { m.stages[1].plan.outputs[0].state = 0; }},
      {"stage 1: output y: nothing reads it",
       [](StagedModel &m) { m.stages[1].plan.outputs[0].leaves.clear(); }},
      {"output 0: expected one stage to produce it, got 2",
       [](StagedModel &m) {
         m.stages[2].plan.outputs[0].leaves = {0, 1};
       }},
      {"channel h: port 0:0 does not send it",
       [](StagedModel &m) {
         m.stages[0].plan.outputs[0].channels.clear();
         m.stages[0].plan.outputs[0].leaves = {0};
       }},
      {"channel w: port 1:0 does not receive it",
       [](StagedModel &m) {
         m.channels[1].to.insert(m.channels[1].to.begin(), {1, 0});
       }},
      {"channel h: consumers ascend by stage",
       [](StagedModel &m) { std::swap(m.channels[0].to[0], m.channels[0].to[1]); }},
      {"channel h: expected skip=true, got skip=false",
       [](StagedModel &m) { m.channels[0].skip = false; }},
      {"channel h: this name appears twice", [](StagedModel &m) { m.channels[1].name = "h"; }},
      {"tie w: the model has no attribute q",
       [](StagedModel &m) { m.ties[0].names.push_back("q"); }},
      {"tie w: expected names and at least 2 stages, got 1 and 1",
       [](StagedModel &m) { m.ties[0].stages = {0}; }},
      {"tie w: stages ascend and are below 3, got 0",
       [](StagedModel &m) {
         m.ties[0].stages = {2, 0};
       }},
      {"tie w: its owner 1 is none of its stages", [](StagedModel &m) { m.ties[0].owner = 1; }},
      {"channel h: stage 1 sends to stage 1: values flow forward only",
       [](StagedModel &m) {
         m.stages[0].plan.outputs[0] = {"y", "Tensor", {}, {0}, {}};
         m.stages[1].plan.outputs[0] = {"h", "Tensor", {0}, {}, {}};
         m.channels[0].from = {1, 0};
       }},
  };
  for (const StagedCase &entry : cases) {
    StagedModel damaged = staged();
    entry.damage(damaged);
    EXPECT_TRUE(failedWith(verify(damaged), ExitCode::Unreadable, entry.message));
  }
}

TEST(Verify, FrontModelsKeepTheirModule) {
  Model front = sampleModel();
  front.self = c10::IValue(1);
  EXPECT_TRUE(failedWith(verify(front), ExitCode::Unreadable,
                         "expected self and 1 arguments, got 4 inputs"));
  setGraph(front, "graph(%self : Tensor, %x : Tensor):\n  return (%x)");
  EXPECT_TRUE(failedWith(verify(front), ExitCode::Unreadable,
                         "expected the module as first input, got Tensor"));
}

TEST(VerifyGraph, ValuesAreDefinedBeforeTheyAreUsed) {
  EXPECT_TRUE(succeeded(lintGraph(*test::modelOf(R"(graph(%x : Tensor, %c : bool):
    %y : Tensor = prim::If(%c)
      block0():
        %a : Tensor = aten::relu(%x)
        -> (%a)
      block1():
        -> (%x)
    %z : Tensor = aten::add_(%y, %x, %c)
    return (%z, %z))")
                                       .graph)));
  // The parser knows the names of inner blocks outside too.
  const Model outside = test::modelOf(R"(graph(%x : Tensor, %c : bool):
    %y : Tensor = prim::If(%c)
      block0():
        %a : Tensor = aten::relu(%x)
        -> (%a)
      block1():
        -> (%x)
    %z : Tensor = aten::neg(%a)
    return (%z))");
  EXPECT_TRUE(failedWith(lintGraph(*outside.graph), ExitCode::Unreadable,
                         "aten::neg: reads %a, which is not defined before it"));
}

TEST(VerifyGraph, AGraphFromOutside) {
  const Model model = sampleModel();
  const GraphFace face = faceOf(*model.graph);
  EXPECT_EQ(face.inputUses, (std::vector<size_t>{1, 1, 1, 0}));
  EXPECT_EQ(face.outputs, 2u);
  EXPECT_EQ(face.firstInputType, "Tensor");
  EXPECT_FALSE(face.firstInputIsModule);
}

} // namespace
} // namespace pipec
