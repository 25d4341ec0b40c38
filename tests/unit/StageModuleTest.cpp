// A stage file and its plan together.
#include "ir/artifact/StageModule.h"

#include "tests/support/TestModels.h"
#include "tests/unit/TempDir.h"

#include <gtest/gtest.h>

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include <fstream>

using namespace pipec;

namespace {

StageAttribute attribute(std::string name, AttributeKind kind, size_t uses,
                         bool requiresGrad = false) {
  StageAttribute result;
  result.name = std::move(name);
  result.kind = kind;
  result.uses = uses;
  result.requiresGrad = requiresGrad;
  result.bytes = result.kind == AttributeKind::Parameter ? 8 : 4;
  return result;
}

void write(const std::string &path, const test::SavedModule &module) {
  std::ofstream(path, std::ios::binary) << bytesOf(module);
}

/// x, weight, weight again, counter -> x * weight + weight, counter + 1 (a state)
struct Fixture {
  TempDir dir;
  StagePlan plan;
  std::string path = dir.path("stage-0.pt");

  explicit Fixture(const char *result = "(x * block_weight + block_weight_use1, counter + 1)") {
    write(path,
          {.name = "Stage",
           .parameters = {{"block.weight", at::full({2}, 3.0f).set_requires_grad(true)}},
           .buffers = {{"counter", at::zeros({1})}},
           .source = std::string("def pipec_forward(self, x, block_weight, block_weight_use1, "
                                 "counter):\n    return ") +
                     result + "\n"});
    plan.inputs.resize(1);
    plan.inputs[0].name = "x";
    plan.inputs[0].type = "Tensor";
    plan.outputs.resize(2);
    plan.outputs[0].type = plan.outputs[1].type = "Tensor";
    plan.outputs[1].state = 1;
    plan.attributes = {attribute("block.weight", AttributeKind::Parameter, 2, true),
                       attribute("counter", AttributeKind::Buffer, 1)};
  }

  ErrorText error() const {
    auto stage = StageModule::load(path, plan);
    EXPECT_FALSE(static_cast<bool>(stage));
    return stage ? ErrorText{ExitCode::Success, "", ""} : describe(stage.takeError());
  }
  StageModule load() const {
    auto stage = StageModule::load(path, plan);
    if (!stage)
      throw std::runtime_error(describe(stage.takeError()).message);
    return std::move(*stage);
  }
};

} // namespace

TEST(StageModule, RunsAndWritesStateBack) {
  Fixture fixture;
  StageModule stage = fixture.load();
  EXPECT_EQ(stage.inputTypes().size(), 1u);
  EXPECT_TRUE(stage.attribute(0).toTensor().requires_grad());
  for (int step = 1; step <= 3; ++step) {
    auto outputs = stage.run({at::full({2}, 2.0f)});
    ASSERT_TRUE(static_cast<bool>(outputs));
    ASSERT_EQ(outputs->size(), 2u);
    EXPECT_EQ((*outputs)[0].toTensor()[0].item<float>(), 9.0f);
    EXPECT_EQ(stage.attribute(1).toTensor().item<float>(), static_cast<float>(step));
  }
}

TEST(StageModule, CopiesStartFromTheFile) {
  Fixture fixture("(x * block_weight + block_weight_use1, counter.add_(1))");
  StageModule original = fixture.load();
  original.silence();
  ASSERT_FALSE(bool(original.prepare()));
  ASSERT_TRUE(original.canBeCopied());
  auto copyOf = [&] {
    auto copy = original.copy();
    if (!copy)
      throw std::runtime_error(describe(copy.takeError()).message);
    return std::move(*copy);
  };
  StageModule first = copyOf(), second = copyOf();
  auto countOf = [](StageModule &stage) {
    auto outputs = stage.run({at::full({2}, 2.0f)});
    return outputs ? stage.attribute(1).toTensor().item<float>() : -1.0f;
  };
  for (int step = 1; step <= 3; ++step)
    EXPECT_EQ(countOf(first), static_cast<float>(step));
  EXPECT_EQ(second.attribute(1).toTensor().item<float>(), 0.0f);
  EXPECT_EQ(countOf(second), 1.0f);
  StageModule third = copyOf();
  EXPECT_EQ(countOf(third), 1.0f);
  EXPECT_TRUE(third.attribute(0).toTensor().requires_grad());
}

TEST(StageModule, OneOutputIsBareAndNoneIsNone) {
  Fixture one("x * block_weight");
  one.plan.outputs.resize(1);
  auto outputs = one.load().run({at::ones({2})});
  ASSERT_TRUE(static_cast<bool>(outputs));
  ASSERT_EQ(outputs->size(), 1u);
  EXPECT_EQ((*outputs)[0].toTensor()[1].item<float>(), 3.0f);

  Fixture none("None");
  none.plan.outputs.clear();
  outputs = none.load().run({at::ones({2})});
  ASSERT_TRUE(static_cast<bool>(outputs));
  EXPECT_TRUE(outputs->empty());
}

/// An operator that runs without gradients has a switch before it and one after it.
TEST(StageModule, AFailedRunLeavesGradModeAsItWas) {
  Fixture fixture;
  write(fixture.path,
        {.name = "Stage",
         .parameters = {{"block.weight", at::full({2}, 3.0f).set_requires_grad(true)}},
         .buffers = {{"counter", at::zeros({1})}},
         .source = "def pipec_forward(self, x, block_weight, block_weight_use1, counter):\n"
                   "    torch.set_grad_enabled(False)\n"
                   "    y = torch.mul(x, block_weight)\n"
                   "    torch.set_grad_enabled(True)\n"
                   "    return (y + block_weight_use1, counter + 1)\n"});
  StageModule stage = fixture.load();
  for (bool mode : {true, false}) {
    const c10::AutoGradMode ofThread(mode);
    EXPECT_FALSE(static_cast<bool>(llvm::expectedToOptional(stage.run({at::ones({3})}))));
    EXPECT_EQ(c10::GradMode::is_enabled(), mode);
    EXPECT_TRUE(static_cast<bool>(llvm::expectedToOptional(stage.run({at::ones({2})}))));
    EXPECT_EQ(c10::GradMode::is_enabled(), mode);
  }
}

TEST(StageModule, WeightOfAChannelStartsEmpty) {
  Fixture fixture;
  write(fixture.path, {.name = "Stage",
                       .buffers = {{"counter", at::zeros({1})}},
                       .source = "def pipec_forward(self, x, block_weight, block_weight_use1, "
                                 "counter):\n    return (x * block_weight, counter)\n"});
  fixture.plan.attributes[0].channel = 0;
  StageModule stage = fixture.load();
  EXPECT_TRUE(stage.attribute(0).isNone());
  auto early = stage.run({at::ones({2})});
  ASSERT_FALSE(static_cast<bool>(early));
  ErrorText error = describe(early.takeError());
  EXPECT_EQ(
      error.message,
      "attribute block.weight: expected a value from channel 0 before the first run, got none");
  stage.setAttribute(0, at::ones({2}));
  EXPECT_TRUE(static_cast<bool>(stage.run({at::ones({2})})));
}

TEST(StageModule, FileThatIsNotWhatThePlanSays) {
  auto refused = [](const char *part, auto change) {
    Fixture fixture;
    change(fixture.plan);
    ErrorText error = fixture.error();
    EXPECT_EQ(error.code, ExitCode::BadArtifact);
    EXPECT_NE(error.message.find(part), std::string::npos) << error.message;
    EXPECT_NE(error.message.find("stage-0.pt"), std::string::npos) << error.message;
  };
  refused("argument 1: expected block_bias, got block_weight",
          [](StagePlan &plan) { plan.attributes[0].name = "block.bias"; });
  refused("argument 3: expected counter_x, got counter",
          [](StagePlan &plan) { plan.attributes[1].name = "counter.x"; });
  refused("expected the attribute block_weight, got a module without it",
          [](StagePlan &plan) { plan.attributes[0].name = "block_weight"; });
  refused("argument 0: expected y, got x", [](StagePlan &plan) { plan.inputs[0].name = "y"; });
  refused("input 0 (x): expected type int, got Tensor",
          [](StagePlan &plan) { plan.inputs[0].type = "int"; });
  refused("output 1 (): expected type int, got Tensor",
          [](StagePlan &plan) { plan.outputs[1].type = "int"; });
  refused("argument 1: expected counter, got block_weight",
          [](StagePlan &plan) { std::swap(plan.attributes[0], plan.attributes[1]); });
  refused("attribute counter: kind: expected parameter, got buffer",
          [](StagePlan &plan) { plan.attributes[1].kind = AttributeKind::Parameter; });
  refused("attribute block.weight: requires_grad: expected false, got true",
          [](StagePlan &plan) { plan.attributes[0].requiresGrad = false; });
  refused("attribute counter: expected 5 bytes, got 4",
          [](StagePlan &plan) { plan.attributes[1].bytes = 5; });
  refused("random operators: expected 1, got 0",
          [](StagePlan &plan) { plan.effects.randomOps = {0}; });
  refused("expected prints=true raises=false, got prints=false raises=false",
          [](StagePlan &plan) { plan.effects.prints = true; });
  refused("expected 5 arguments (2 inputs, 3 weight uses), got 4",
          [](StagePlan &plan) { plan.inputs.resize(2); });
  refused("expected 3 arguments", [](StagePlan &plan) { plan.attributes[0].uses = 1; });
  refused("expected 3 results, got 2", [](StagePlan &plan) { plan.outputs.resize(3); });

  TempDir dir;
  write(dir.path("stage-0.pt"), {.name = "Empty"});
  auto stage = StageModule::load(dir.path("stage-0.pt"), StagePlan());
  ASSERT_FALSE(static_cast<bool>(stage));
  EXPECT_NE(describe(stage.takeError()).message.find("pipec_forward"), std::string::npos);
}

TEST(StageModule, FailureInTheStageIsAnError) {
  Fixture fixture;
  StageModule stage = fixture.load();
  auto outputs = stage.run({at::ones({3})});
  ASSERT_FALSE(static_cast<bool>(outputs));
  EXPECT_NE(describe(outputs.takeError()).message.find("must match the size"), std::string::npos);
  auto count = stage.run({});
  ASSERT_FALSE(static_cast<bool>(count));
  EXPECT_EQ(describe(count.takeError()).message, "expected 1 inputs, got 0");
  EXPECT_TRUE(static_cast<bool>(stage.run({at::ones({2})}))) << "still usable";
}

TEST(StageModule, MoveKeepsSharedMemoryAndFlags) {
  // meta stands for a GPU: it shows what was moved without one.
  Fixture fixture;
  StageModule stage = fixture.load();
  at::Tensor base = at::arange(6, at::kFloat);
  stage.setAttribute(0, base.narrow(0, 0, 2));
  stage.setAttribute(1, base.view({2, 3}).t());
  ASSERT_FALSE(bool(stage.moveTo("meta")));
  at::Tensor first = stage.attribute(0).toTensor(), second = stage.attribute(1).toTensor();
  EXPECT_TRUE(first.is_meta());
  EXPECT_TRUE(first.is_alias_of(second));
  EXPECT_EQ(second.strides(), (at::IntArrayRef{1, 3}));
  EXPECT_FALSE(bool(fixture.load().moveTo("cpu")));
  llvm::Error error = stage.moveTo("nonsense");
  EXPECT_EQ(describe(std::move(error)).code, ExitCode::Usage);
}

TEST(StageModule, MovePointsDeviceConstantsAtTheDevice) {
  Fixture fixture("(x * block_weight + torch.ones([2], device=torch.device('cuda:0')), counter)");
  StageModule stage = fixture.load();
  ASSERT_FALSE(bool(stage.moveTo("cpu")));
  auto outputs = stage.run({at::ones({2})});
  ASSERT_TRUE(static_cast<bool>(outputs)) << "a device constant of another machine is replaced";
  EXPECT_EQ((*outputs)[0].toTensor()[0].item<float>(), 4.0f);
}
