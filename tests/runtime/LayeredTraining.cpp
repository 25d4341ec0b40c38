#include "tests/runtime/LayeredTraining.h"

#include "compiler/Compiler.h"
#include "ir/schedule/OpMemory.h"
#include "runtime/Pipeline.h"
#include "tests/runtime/SmallPipeline.h"
#include "tests/support/Matchers.h"
#include "tests/support/TestModels.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/ones.h>

#include <fstream>

namespace pipec {

namespace {

const char *expressionOf(Layers layers) {
  switch (layers) {
  case Layers::SiluLast:
    return "torch.silu(torch.matmul(x, self.w))";
  case Layers::TanhLast:
    return "torch.tanh(torch.matmul(x, self.w))";
  case Layers::Wide:
    return "torch.matmul(torch.mean(torch.tanh(torch.unsqueeze(x, 2) + self.u), [2]), self.w)";
  default:
    return "torch.matmul(torch.tanh(x), self.w)";
  }
}

} // namespace

std::string compileLayers(Layers layers, size_t stages, RecomputeChoice recompute) {
  test::SavedModule model{.name = "Layers"};
  std::string source = "def forward(self, x):\n";
  CompileOptions options;
  for (size_t i = 0; i < stages * kLayersPerStage; ++i) {
    const std::string layer = fmt::format("l{}", i);
    test::SavedModule one{
        .name = fmt::format("Layer{}", i),
        .parameters = {{"w", at::eye(kWidth).set_requires_grad(true)}},
        .source = fmt::format("def forward(self, x):\n    return {}\n", expressionOf(layers))};
    if (layers == Layers::Wide)
      one.parameters.emplace_back("u", at::ones({kWide}).set_requires_grad(true));
    model.modules.emplace_back(layer, std::move(one));
    source += fmt::format("    x = self.{}.forward(x)\n", layer);
    if (layers == Layers::Skip && i + 1 == kLayersPerStage)
      source += "    skipped = x\n";
    if (layers == Layers::Skip && i == 2 * kLayersPerStage)
      source += "    x = torch.sub(x, skipped)\n"; // each has a gradient of its own
    if (i > 0 && i % kLayersPerStage == 0)
      options.cuts.push_back(AtModule{layer});
  }
  model.source = source + "    return torch.mean(x * x)\n";
  const std::string path = scratchPath("layers.pt"), artifact = scratchPath("layers.pipe");
  std::ofstream(path, std::ios::binary) << bytesOf(model);
  options.mode = Mode::Train;
  options.recompute = recompute;
  options.cost = AnalyticCosts();
  options.inputs = fmt::format("f32[{},{}]", kSamples, kWidth);
  options.schedule = NamedSchedule{"gpipe"};
  options.microBatches = 2; // of a step: the plan expects micro-batches as large as the example
  Compiler compiler = take(Compiler::load(path));
  EXPECT_TRUE(succeeded(compiler.compile(options, artifact, /*force=*/true)));
  return artifact;
}

/// F keeps what tanh gave in every layer, the last
/// stage also its result, which the loss squares. A pending W needs what tanh gave and the gradient
/// of every product.
ProgramCosts costsOf(size_t stages, bool recomputed) {
  ProgramCosts costs;
  costs.takesAllocate = true;
  costs.gradientBytes.assign(stages, kLayersPerStage * kWeightBytes);
  for (size_t s = 0; s < stages; ++s) {
    const int64_t kept = (kLayersPerStage + (s + 1 == stages ? 1 : 0)) * kLayerBytes;
    // Stage 0 has no input gradient: its W makes the gradients of the inner products.
    const int64_t pending = (s == 0 ? kLayersPerStage + 1 : 2 * kLayersPerStage) * kLayerBytes;
    costs.stages.push_back({.heldByForward = kept, .freedByInputGrad = kept - pending});
    if (recomputed)
      costs.keptToRecompute.push_back(s == 0 ? 0 : kLayerBytes); // stage 0: the user's memory
  }
  return costs;
}

std::vector<c10::IValue> batchOf(int64_t microBatches) {
  return {at::ones({microBatches * kSamples, kWidth})};
}

PipelineOptions ownMemoryOptions() {
  PipelineOptions options;
  options.threads = 1;
  options.devices = {"own"};
  options.training.emplace();
  return options;
}

NotedRun noteRun(const std::string &artifact, const PipelineOptions &options) {
  const OwnMemories devices;
  Pipeline pipeline = take(Pipeline::load(artifact, options));
  const std::vector<c10::IValue> batch = batchOf(pipeline.microBatches());
  take(pipeline.step(batch));
  NotedStep step = take(noteStep(pipeline, batch));
  return {pipeline.plan(), std::move(step)};
}

size_t compareOps(const NotedRun &run, const ProgramCosts &costs) {
  size_t compared = 0;
  for (size_t r = 0; r < run.step.ranks.size(); ++r) {
    OpMemory memory(run.plan, run.step.trace.shape, costs);
    int64_t expected = 0;
    for (const NotedOp &noted : run.step.ranks[r]) {
      if (isCompute(noted.op.kind)) {
        const std::string what = fmt::format("rank {}, {}", r, toString(noted.op));
        EXPECT_EQ(run.step.heldBefore(r, noted), expected) << "before " << what;
        if (!costs.room.empty()) {
          EXPECT_EQ(run.step.mostDuring(r, noted), memory.mostDuring(noted.op)) << what;
        }
        ++compared;
      }
      expected += memory.atStart(noted.op) - memory.atEnd(r, noted.op);
    }
    EXPECT_EQ(expected, 0) << "rank " << r << ", at the end";
  }
  return compared;
}

} // namespace pipec
