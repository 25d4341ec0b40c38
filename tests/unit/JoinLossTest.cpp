// A loss joined to a model: the names that the joined parts get, and that no name alone says that a
// loss was joined.
#include "ir/torchfile/JoinLoss.h"

#include "ir/artifact/StageModule.h"
#include "ir/torchfile/SourceCopies.h"
#include "tests/support/Matchers.h"
#include "tests/unit/TempDir.h"

#include <gtest/gtest.h>

#include <ATen/Functions.h>

using namespace pipec;

namespace {

namespace jit = torch::jit;

/// Has a method and a submodule with the names that a joined loss would get.
jit::Module author() {
  jit::Module inner("__torch__.Inner");
  inner.define("def forward(self, x, target):\n    return torch.dropout(x - target, 0.5, True)\n");
  jit::Module model("__torch__.Author");
  model.register_module("loss", inner);
  model.define("def forward(self, x):\n"
               "    return x * 2\n"
               "def forward_with_loss(self, x, target):\n"
               "    return self.loss.forward(self.forward(x), target)\n");
  return model;
}

/// Draws, so that it runs in training mode.
jit::Module drawingLoss() {
  jit::Module loss("__torch__.Loss");
  loss.define("def forward(self, output, target):\n"
              "    return torch.dropout(output - target, 0.5, True).sum()\n");
  return loss;
}

/// What is in training mode, as the note on it begins.
std::string inTraining(const jit::Module &model, const std::string &method,
                       const std::optional<JoinedLoss> &loss) {
  const std::vector<std::string> notes = trainingModulesWithLoss(model, method, loss).notes("");
  return notes.empty() ? "" : notes.front().substr(0, notes.front().find(" in training mode"));
}

TEST(JoinLoss, PartsGetFreeNames) {
  jit::Module model = author();
  jit::Module loss("__torch__.Loss");
  loss.define("def forward(self, output, target):\n    return (output - target).sum()\n");
  const JoinedLoss joined = take(joinLoss(model, "forward", loss));
  EXPECT_EQ(joined.method, "forward_with_loss_");
  EXPECT_EQ(joined.ofModel, "forward");
  EXPECT_EQ(joined.submodule, "loss_");
  const at::Tensor x = at::ones({4});
  EXPECT_EQ(runMethod(model, joined.method, {x, x}).toTensor().item<float>(), 4);
  EXPECT_EQ(nameOfJoinedMethod(model), "forward_with_loss__");
}

TEST(JoinLoss, AnAttributeHasItsNameToo) {
  jit::Module model("__torch__.Author");
  model.register_buffer("forward_with_loss", at::ones({1}));
  EXPECT_EQ(nameOfJoinedMethod(model), "forward_with_loss_");
  EXPECT_EQ(nameOfJoinedMethod(jit::Module("__torch__.Plain")), "forward_with_loss");
}

TEST(JoinLoss, AMethodOfItsNameIsPlain) {
  EXPECT_EQ(inTraining(author(), "forward_with_loss", std::nullopt), "loss is");
}

TEST(JoinLoss, ModulesOfTheLossAreNamedAsInTheModel) {
  jit::Module model = author();
  const JoinedLoss joined = take(joinLoss(model, "forward", drawingLoss()));
  EXPECT_EQ(inTraining(model, joined.method, joined), "loss_ is");
  EXPECT_EQ(inTraining(model, "forward", std::nullopt), "");
}

TEST(JoinLoss, CopiesOfASourceTellWhatWasJoined) {
  TempDir dir;
  author().save(dir.path("m.pt"));
  drawingLoss().save(dir.path("loss.pt"));
  SourceCopies plain(dir.path("m.pt"), {});
  take(plain.next(Prints::Removed));
  EXPECT_FALSE(plain.joinedLoss());
  SourceMode mode;
  mode.loss = dir.path("loss.pt");
  SourceCopies copies(dir.path("m.pt"), mode);
  for (int copy = 0; copy < 2; ++copy) {
    const jit::Module module = take(copies.next(Prints::Removed));
    const std::optional<JoinedLoss> joined = copies.joinedLoss();
    ASSERT_TRUE(joined);
    EXPECT_EQ(inTraining(module, joined->method, joined), "loss_ is");
  }
}

} // namespace
