#include "tests/runtime/SmallTraining.h"

#include "compiler/Compiler.h"
#include "ir/checkpoint/CheckpointValues.h"
#include "ir/values/ValueFiles.h"
#include "tests/runtime/SmallPipeline.h"
#include "tests/support/Matchers.h"
#include "tests/support/TestModels.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>

#include <fstream>
#include <map>

namespace pipec {

namespace {

/// A skip, a weight at both ends, state written in place, and random operators.
const char *const kTrained = R"(
def forward(self, x, target):
    h = torch.relu(torch.matmul(x, self.w0))
    skip = h
    h = torch.dropout(torch.relu(torch.matmul(h, self.w1)), 0.5, True)
    self.seen.add_(1)
    h = torch.relu(torch.matmul(h, self.w2))
    h = torch.relu(torch.matmul(h, self.w3))
    h = torch.dropout(torch.relu(torch.matmul(h + skip, self.w4)), 0.5, True)
    h = torch.relu(torch.matmul(h, self.w5)) + skip
    h = torch.matmul(h, self.w0.t())
    return torch.mse_loss(h, target)
)";

std::string sourceOf(const Training &how) {
  std::string source = kTrained;
  const std::string writes = "    self.seen.add_(1)\n";
  if (!how.writesState)
    source.erase(source.find(writes), writes.size());
  const std::string shared = "self.w0.t()";
  if (!how.sharesWeight)
    source.replace(source.find(shared), shared.size(), "self.w6.t()");
  return source;
}

} // namespace

std::vector<c10::IValue> trainingBatch() {
  return {(at::arange(12 * 16, at::kFloat).view({12, 16}) / 7).sin(),
          (at::arange(12 * 16, at::kFloat).view({12, 16}) / 5).cos()};
}

std::string compileTrained(const Training &how, std::string *model) {
  std::vector<std::pair<std::string, at::Tensor>> parameters;
  for (int64_t k = 0; k < (how.sharesWeight ? 6 : 7); ++k)
    parameters.push_back(
        {fmt::format("w{}", k), ((at::arange(256, at::kFloat).view({16, 16}) + k) / 3)
                                    .sin()
                                    .div(3)
                                    .set_requires_grad(true)});
  test::SavedModule module{.name = "Trained",
                           .parameters = std::move(parameters),
                           .buffers = {{"seen", at::zeros({1})}},
                           .source = sourceOf(how)};
  const std::string path = scratchPath("trained.pt"), inputs = scratchPath("trained.inputs.pt");
  std::ofstream(path, std::ios::binary) << bytesOf(module);
  EXPECT_TRUE(succeeded(writeValue(inputs, c10::ivalue::Tuple::create(trainingBatch()))));
  Compiler compiler = take(Compiler::load(path));
  CompileOptions options;
  options.mode = Mode::Train;
  options.trainingFlag = TrainingFlag::True;
  options.stages = 4;
  options.ranks = how.schedule == "1f1b" || how.schedule == "zb-h1" ? 4 : 2;
  options.cost = AnalyticCosts();
  options.inputs = inputs;
  options.tied = {{"", how.tied}};
  options.recompute = how.recompute;
  const std::string artifact = scratchPath("trained.pipe");
  EXPECT_TRUE(succeeded(compiler.compile(options, artifact, /*force=*/true)));
  if (model)
    *model = path;
  return artifact;
}

PipelineOptions runTrained(const Training &how) {
  PipelineOptions options;
  options.microBatches = 4 / how.replicas;
  options.replicas = how.replicas;
  options.threads = 1;
  options.devices = how.devices;
  options.scheduleName = how.schedule;
  options.training.emplace();
  options.training->optimizer = how.optimizer;
  options.training->clipNorm = 0.5;
  options.training->keepGradients = true;
  return options;
}

llvm::Error train(const Training &how, c10::IValue *trained) {
  llvm::Expected<Pipeline> pipeline = Pipeline::load(compileTrained(how), runTrained(how));
  if (!pipeline)
    return pipeline.takeError();
  for (int step = 0; step < 3; ++step)
    if (llvm::Expected<TrainedStep> done = pipeline->step(trainingBatch()); !done)
      return done.takeError();
  if (trained)
    *trained =
        c10::ivalue::Tuple::create({pipeline->state().ivalue(), pipeline->gradients().ivalue()});
  return llvm::Error::success();
}

ValueTree optimizerStateIn(const std::string &checkpoints) {
  const ReadCheckpoint read =
      take(readCheckpoint(checkpoints, WhichCheckpoint::Newest,
                          [](const auto &, const auto &) { return llvm::Error::success(); }));
  std::map<std::string, c10::IValue> states;
  for (const SavedValue &saved : read.values.all()) {
    c10::impl::GenericDict state(c10::StringType::get(), c10::AnyType::get());
    for (const auto &[key, value] : saved.optimizer)
      state.insert(key, value);
    if (!saved.optimizer.empty())
      states.emplace(saved.about.name, state);
  }
  c10::impl::GenericDict dict(c10::StringType::get(), c10::AnyType::get());
  for (const auto &[name, state] : states)
    dict.insert(name, state);
  return ValueTree::of(dict);
}

} // namespace pipec
