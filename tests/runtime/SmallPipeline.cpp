#include "tests/runtime/SmallPipeline.h"

#include "ir/artifact/ArtifactWriter.h"
#include "ir/artifact/Relink.h"
#include "ir/plan/PlanToJson.h"
#include "ir/schedule/ForwardOnly.h"
#include "ir/schedule/Schedule.h"
#include "ir/values/CompareValues.h"
#include "ir/values/MapTensors.h"
#include "llvm/Support/FileSystem.h"
#include "tests/support/Matchers.h"
#include "tests/support/TestModels.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <fstream>
#include <unistd.h>

namespace pipec {

namespace {

using test::SavedModule;

at::Tensor weight() {
  return (at::arange(64, at::kFloat).view({8, 8}) / 37).sin().set_requires_grad(true);
}
at::Tensor bias() { return at::arange(8, at::kFloat) / 5; }

SavedModule stage0(const std::string &start) {
  return {.name = "Stage0",
          .parameters = {{"w", weight()}},
          .source = "def pipec_forward(self, x, w):\n" + start + R"(
    e = torch.matmul(x, w.t())
    return e, e.t(), e.sum(1)

def forward(self, x):
)" + start + R"(
    e = torch.matmul(x, self.w.t())
    return e, e.t(), e.sum(1), self.w
)"};
}

SavedModule stage1(const SmallModel &model) {
  std::string check =
      model.failInStage1 ? "    assert bool(torch.max(e) <= 1000), 'too large'\n" : "";
  check += model.startOfStage1;
  std::string rest = "    return torch.dropout(torch.relu(e + bias) * scale, 0.5, True)\n";
  return {.name = "Stage1",
          .buffers = {{"bias", bias()}},
          .source = "def pipec_forward(self, e, scale: int, bias):\n" + check + rest +
                    "def forward(self, e, scale: int):\n    bias = self.bias\n" + check + rest};
}

SavedModule stage2InPlace() {
  const std::string body = R"(
    out = torch.matmul(torch.dropout(h + skip.t(), 0.25, True), w)
    steps.add_(1)
    return out, steps
)";
  return {.name = "Stage2",
          .buffers = {{"steps", at::zeros({1}, at::kLong)}},
          .source = "def pipec_forward(self, h, skip, w, steps):" + body +
                    "\ndef forward(self, h, skip, w):\n    steps = self.steps" + body};
}

SavedModule stage2(const std::string &method) {
  return {.name = "Stage2",
          .buffers = {{"steps", at::zeros({1}, at::kLong)}},
          .source = "def " + method + R"((self, h, skip, w, steps):
    out = torch.matmul(torch.dropout(h + skip.t(), 0.25, True), w)
    now = steps + 1
    return out, now, now

def forward(self, h, skip, w):
    out = torch.matmul(torch.dropout(h + skip.t(), 0.25, True), w)
    now = self.steps + 1
    self.steps = now
    return out, now
)"};
}

StageAttribute attribute(const std::string &name, AttributeKind kind, bool requiresGrad,
                         int64_t bytes) {
  StageAttribute result;
  result.bytes = bytes;
  result.name = name;
  result.kind = kind;
  result.uses = 1;
  result.requiresGrad = requiresGrad;
  return result;
}

Channel channel(const std::string &name, Channel::Kind kind, PortRef from, PortRef to, bool skip) {
  Channel result;
  result.name = name;
  result.kind = kind;
  result.from = from;
  result.to = {to};
  result.type = "Tensor";
  result.skip = skip;
  return result;
}

void describeSignature(Signature &signature) {
  InputSpec x, scale;
  x.name = "x";
  x.type = "Tensor";
  x.batchDim = 0;
  x.tensor.known = true;
  x.tensor.dtype = "float32";
  x.tensor.shape = {{1, 0, false}, {0, 8, false}};
  x.tensor.strides = {{0, 8, false}, {0, 1, false}};
  scale.name = "scale";
  scale.type = "int";
  scale.defaultValue = llvm::json::Value(2);
  signature.inputs = {x, scale};
  OutputTree early{OutputTree::Kind::Leaf, {}, {}, "", 0},
      out{OutputTree::Kind::Leaf, {}, {}, "", 1}, steps{OutputTree::Kind::Leaf, {}, {}, "", 2};
  OutputTree rest{OutputTree::Kind::Tuple, {out, steps}, {}, "", 0};
  signature.outputs = {OutputTree::Kind::Dict, {early, rest}, {"early", "rest"}, "", 0};
  OutputLeaf leaf;
  leaf.type = "Tensor";
  leaf.merge = {MergeRule::Kind::Concat, 0};
  signature.leaves = {leaf, leaf, leaf};
  signature.leaves[2].merge = {MergeRule::Kind::List, 0}; // it counts the calls
}

} // namespace

Plan smallPlan(const SmallModel &model) {
  using In = StageInput::Kind;
  Plan plan;
  plan.sourceDigest = "sha256:" + std::string(64, '0');
  describeSignature(plan.signature);
  plan.stages.resize(3);
  for (size_t s = 0; s < 3; ++s)
    plan.stages[s].file = fmt::format("stage-{}.pt", s);
  StagePlan &s0 = plan.stages[0], &s1 = plan.stages[1], &s2 = plan.stages[2];
  s0.inputs = {{"x", "Tensor", In::UserInput, 0}};
  s0.outputs = {{"e", "Tensor", {0}, {}, {}},
                {"skip", "Tensor", {1}, {}, {}},
                {"early", "Tensor", {}, {0}, {}}};
  s0.attributes = {attribute("w", AttributeKind::Parameter, true, 256)};
  s0.parameterBytes = 256;
  s0.weightChannelsOut = {3};
  s0.firstModule = s0.lastModule = "embed";
  s1.inputs = {{"e", "Tensor", In::Channel, 0}, {"scale", "int", In::UserInput, 1}};
  s1.outputs = {{"h", "Tensor", {2}, {}, {}}};
  s1.attributes = {attribute("bias", AttributeKind::Buffer, false, 32)};
  s1.effects.randomOps = {0};
  s1.effects.raises = model.failInStage1;
  s1.firstModule = "layers.0";
  s1.lastModule = "layers.3";
  s2.inputs = {{"h", "Tensor", In::Channel, 2}, {"skip", "Tensor", In::Channel, 1}};
  s2.outputs = {{"out", "Tensor", {}, {1}, {}},
                {"output2", "Tensor", {}, {2}, {}},
                {"steps", "Tensor", {}, {}, 1}};
  s2.attributes = {attribute("w", AttributeKind::Parameter, true, 256),
                   attribute("steps", AttributeKind::Buffer, false, 8)};
  if (model.countInPlace)
    s2.outputs.pop_back();
  s2.attributes[0].channel = 3;
  s2.attributes[1].written = true;
  s2.effects.randomOps = {1};
  s2.effects.stateWrites = {"steps"};
  s2.firstModule = s2.lastModule = "head";
  plan.channels = {channel("e", Channel::Kind::Activation, {0, 0}, {1, 0}, false),
                   channel("skip", Channel::Kind::Activation, {0, 1}, {2, 1}, true),
                   channel("h", Channel::Kind::Activation, {1, 0}, {2, 0}, false),
                   channel("w", Channel::Kind::Weight, {0, 0}, {2, 0}, true)};
  plan.ties = {{{"w"}, {0, 2}, Tie::Mode::Transmit, 0}};
  plan.toolVersion = "0.1.0";
  plan.torchVersion = "2.11.0";
  plan.microBatches = 2;
  plan.ranks = model.ranks;
  s1.rank = model.ranks == 3 ? 1 : 0;
  s2.rank = model.ranks - 1;
  if (model.editPlan)
    model.editPlan(plan);
  return plan;
}

void writeSmallArtifact(const std::string &directory, const SmallModel &model) {
  SmallModel unedited = model;
  unedited.editPlan = nullptr;
  Plan plan = smallPlan(unedited);
  auto writer = ArtifactWriter::create(directory, /*force=*/false);
  ASSERT_TRUE(succeeded(writer));
  ASSERT_TRUE(succeeded(writer->write("stage-0.pt", bytesOf(stage0(model.startOfStage0)))));
  ASSERT_TRUE(succeeded(writer->write("stage-1.pt", bytesOf(stage1(model)))));
  ASSERT_TRUE(succeeded(writer->write(
      "stage-2.pt", bytesOf(model.countInPlace ? stage2InPlace() : stage2(model.methodOfStage2)))));
  if (llvm::Expected<Relinked> linked = relink(writer->directory(), plan)) {
    plan.sourceDigest = linked->digest; // what the files show, as a compiler would say it
  } else {
    llvm::consumeError(linked.takeError());
  }
  if (model.editPlan)
    model.editPlan(plan);
  ASSERT_TRUE(succeeded(writer->write("plan.json", toJson(plan))));
  ASSERT_TRUE(
      succeeded(writer->write("schedule.csv", toCsv(forwardOnly(plan, plan.microBatches)))));
  ASSERT_TRUE(succeeded(writer->writeManifest()));
  ASSERT_TRUE(succeeded(writer->publish()));
}

void writeSmallModel(const std::string &path) {
  SavedModule module{.name = "Small",
                     .parameters = {{"w", weight()}},
                     .buffers = {{"bias", bias()}, {"steps", at::zeros({1}, at::kLong)}},
                     .source = R"(
def forward(self, x, scale: int = 2) -> Dict[str, Any]:
    e = torch.matmul(x, self.w.t())
    early = e.sum(1)
    h = torch.dropout(torch.relu(e + self.bias) * scale, 0.5, True)
    out = torch.matmul(torch.dropout(h + e, 0.25, True), self.w)
    self.steps = self.steps + 1
    result: Dict[str, Any] = {}
    result["early"] = early
    result["rest"] = (out, self.steps)
    return result
)"};
  std::ofstream(path, std::ios::binary) << bytesOf(module);
}

namespace {

/// Of this process alone: the same tests may run in another at the same time.
struct ScratchFolder {
  std::string path = testing::TempDir() + "pipec-runtime-" + std::to_string(getpid());
  ~ScratchFolder() { llvm::sys::fs::remove_directories(path); }
};

} // namespace

std::string scratchPath(const std::string &name) {
  static const ScratchFolder folder;
  const auto *info = testing::UnitTest::GetInstance()->current_test_info();
  std::string test = std::string(info->test_suite_name()) + "." + info->name();
  std::replace(test.begin(), test.end(), '/', '-');
  std::string directory = folder.path + "/" + test;
  EXPECT_FALSE(llvm::sys::fs::create_directories(directory));
  std::string path = directory + "/" + name;
  llvm::sys::fs::remove_directories(path);
  return path;
}

bool sameBits(const c10::IValue &a, const c10::IValue &b) {
  std::vector<at::Tensor> left, right;
  forEachTensor(a, [&](const at::Tensor &tensor) { left.push_back(tensor); });
  forEachTensor(b, [&](const at::Tensor &tensor) { right.push_back(tensor); });
  if (left.size() != right.size())
    return false;
  for (size_t i = 0; i < left.size(); ++i)
    if (left[i].strides() != right[i].strides())
      return false;
  return compare(a, b, 0, 0).equal;
}

} // namespace pipec
