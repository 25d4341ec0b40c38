// Stages that were read back, linked together again.
#include "ir/artifact/Relink.h"

#include "compiler/Compiler.h"
#include "ir/artifact/ArtifactReader.h"
#include "ir/artifact/LineDifference.h"
#include "tests/support/Matchers.h"
#include "tests/support/TestModels.h"
#include "tests/unit/TempDir.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <filesystem>
#include <fstream>

namespace pipec {
namespace {

/// A model of two stages that warns: LibTorch numbers warnings anew at each read.
class TwoStages : public testing::Test {
protected:
  void SetUp() override {
    std::ofstream(dir.path("model.pt"), std::ios::binary) << test::bytesOf(
        {.name = "Warns",
         .parameters = {{"w", at::ones({4, 4}).set_requires_grad(true)}, {"v", at::ones({4, 4})}},
         .source = "def forward(self, x):\n    h = torch.mm(x, self.w)\n    g = torch.neg(h)\n"
                   "    torch.warn(\"between\", 2)\n"
                   "    return torch.relu(g) * h + torch.mm(g, self.v)\n"});
  }

  Artifact compiled(const std::string &name) {
    CompileOptions options;
    options.cuts = {CutPredicate([](const NodeView &node) { return node.op == "aten::relu"; })};
    Compiler compiler = take(Compiler::load(dir.path("model.pt")));
    take(compiler.compile(options, dir.path(name)));
    return take(openArtifact(dir.path(name)));
  }

  TempDir dir;
};

TEST_F(TwoStages, CompiledTwiceInOneProcessAreTheSameBytes) {
  const Artifact first = compiled("first.pipe"), second = compiled("second.pipe");
  EXPECT_EQ(first.plan.stages.size(), 2u);
  for (const auto &file : std::filesystem::directory_iterator(first.directory)) {
    const std::string name = file.path().filename().string();
    EXPECT_EQ(dir.read("first.pipe/" + name), dir.read("second.pipe/" + name)) << name;
  }
  EXPECT_EQ(first.id, second.id);
}

TEST_F(TwoStages, RelinkedAreTheSource) {
  const Artifact artifact = compiled("a.pipe");
  const Relinked whole = take(relink(artifact.directory, artifact.plan));
  EXPECT_EQ(whole.digest, artifact.plan.sourceDigest);
  EXPECT_EQ(whole.stages.size(), 2u);
  EXPECT_EQ(whole.weights.size(), 2u);
  EXPECT_EQ(firstDifference(whole.lines, whole.lines), "");
}

TEST_F(TwoStages, RelinkSeesWiresThatWereSwapped) {
  const Artifact artifact = compiled("a.pipe");
  Plan plan = artifact.plan;
  ASSERT_EQ(plan.channels.size(), 2u);
  std::swap(plan.stages[1].inputs[0].index, plan.stages[1].inputs[1].index);
  std::swap(plan.channels[0].to, plan.channels[1].to);
  const Relinked swapped = take(relink(artifact.directory, plan));
  const Relinked whole = take(relink(artifact.directory, artifact.plan));
  EXPECT_NE(swapped.digest, whole.digest);
  EXPECT_NE(firstDifference(whole.lines, swapped.lines), "");
}

TEST_F(TwoStages, RelinkNamesTheStageThatIsNotItsPlan) {
  const Artifact artifact = compiled("a.pipe");
  Plan plan = artifact.plan;
  plan.stages[1].attributes[0].name = "u";
  EXPECT_TRUE(failedWith(relink(artifact.directory, plan), ExitCode::BadArtifact, "stage 1"));
  plan = artifact.plan;
  plan.stages[0].inputs.push_back(plan.stages[0].inputs[0]);
  EXPECT_TRUE(failedWith(relink(artifact.directory, plan), ExitCode::BadArtifact, "stage 0"));
}

/// One parameter has one value, whatever its name in a stage; the files also have its sizes.
TEST_F(TwoStages, RelinkComparesTrainedParameters) {
  std::ofstream(dir.path("model.pt"), std::ios::binary)
      << test::bytesOf({.name = "Tied",
                        .parameters = {{"w", at::ones({4, 4}).set_requires_grad(true)},
                                       {"v", at::zeros({4, 4}).set_requires_grad(true)}},
                        .source = "def forward(self, x):\n    h = torch.mm(x, self.w)\n"
                                  "    return torch.mm(torch.relu(h), self.v)\n"});
  const Artifact artifact = compiled("a.pipe");
  Plan plan = artifact.plan;
  TrainingPlan &training = plan.training.emplace();
  training.parameters = {{"w", {}, "float32", {4, 4}, {4, 1}, {{0, 0}}},
                         {"v", {}, "float32", {4, 4}, {4, 1}, {{1, 0}}}};
  EXPECT_TRUE(succeeded(relink(artifact.directory, plan)));
  training.parameters[1].shape = {2, 8};
  training.parameters[1].strides = {8, 1};
  EXPECT_TRUE(failedWith(relink(artifact.directory, plan), ExitCode::BadArtifact,
                         "stage 1: attribute v: expected float32[2, 8] with strides [8, 1] as "
                         "trained parameter v, got float32[4, 4] with strides [4, 1]"));
  training.parameters = {{"w", {"v"}, "float32", {4, 4}, {4, 1}, {{1, 0}, {0, 0}}}};
  EXPECT_TRUE(failedWith(relink(artifact.directory, plan), ExitCode::BadArtifact,
                         "stage 1: weight v differs from its copy in an earlier stage"));
}

/// A second stage of one's own, whose forward ends like this.
std::string secondStage(const std::string &forward) {
  return test::bytesOf({.name = "Stage1",
                        .parameters = {{"v", at::ones({4, 4})}},
                        .source = "def pipec_forward(self, c0, c1, v):\n"
                                  "    return torch.relu(c0) * c1 + torch.mm(c0, v)\n"
                                  "def forward(self, c0, c1):\n" +
                                  forward});
}

TEST_F(TwoStages, ForwardMustBeWhatTheRuntimeRuns) {
  const Artifact artifact = compiled("a.pipe");
  ASSERT_EQ(artifact.plan.stages[1].inputs.size(), 2u);
  auto linked = [&](const std::string &forward) {
    std::ofstream(artifact.directory + "/" + artifact.plan.stages[1].file, std::ios::binary)
        << secondStage(forward);
    return relink(artifact.directory, artifact.plan);
  };
  EXPECT_TRUE(succeeded(linked("    return self.pipec_forward(c0, c1, self.v)\n")));
  // as files were before forward called it
  EXPECT_TRUE(succeeded(linked("    return torch.relu(c0) * c1 + torch.mm(c0, self.v)\n")));
  for (const char *other : {
           "    return self.pipec_forward(c1, c0, self.v)\n",
           "    return self.pipec_forward(c0, c1, c1)\n",
           "    return self.pipec_forward(c0, c1, self.v).relu()\n",
           "    return self.pipec_forward(c0, self.pipec_forward(c0, c1, self.v), self.v)\n",
           "    return torch.relu(c0) * c1 + torch.mm(c1, self.v)\n",
       })
    EXPECT_TRUE(
        failedWith(linked(other), ExitCode::BadArtifact, "stage 1: forward is not pipec_forward"))
        << other;
}

} // namespace
} // namespace pipec
