// bench-sleep: what schedules would gain with a core for every rank, on a machine that has fewer.
//
//   bench-sleep DIRECTORY [--ranks P] [--microbatches M]
//
// Layers that sleep instead of computing: 2 ms in F, 2 ms in I and 2 ms in W, so that ranks do not
// need cores. A chain of two layers per rank is compiled in DIRECTORY with one and with two stages
// per rank, and trained under each schedule that pipec can generate for these numbers. "simulated":
// the same program with these times. "step": median of 5 steps; "ratio": step / simulated. The
// runtime is the real one; no computation competes for memory or cores, so the gains are those of
// the order alone.
#include "compiler/Compiler.h"
#include "ir/schedule/Simulate.h"
#include "ir/support/Median.h"
#include "llvm/Support/Error.h"
#include "runtime/Pipeline.h"
#include "runtime/RunTrace.h"
#include "tests/bench/TrainingSchedules.h"
#include "tests/support/TestModels.h"

#include <fmt/format.h>

#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/function.h>
#include <torch/library.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

using namespace pipec;

llvm::ExitOnError must; // a benchmark that fails says why

namespace ag = torch::autograd;

constexpr auto kLayer = std::chrono::milliseconds(2); // of F, of I and of W
constexpr int64_t kLayerNs = kLayer / std::chrono::nanoseconds(1);

namespace torch::autograd::bench {

/// The gradient of x takes one sleep, that of w another; one is made without the other, as
/// LibTorch's own nodes do. A node outside their namespace would count as one that makes both.
class SleepBackward final : public Node {
public:
  variable_list apply(variable_list &&gradients) override {
    variable_list found(2);
    if (task_should_compute_output(0)) {
      std::this_thread::sleep_for(kLayer);
      found[0] = gradients[0];
    }
    if (task_should_compute_output(1)) {
      std::this_thread::sleep_for(kLayer);
      found[1] = gradients[0].flatten().narrow(0, 0, 1).clone();
    }
    return found;
  }
  std::string name() const override { return "SleepBackward"; }
};

} // namespace torch::autograd::bench

namespace {

at::Tensor sleepLayer(const at::Tensor &x, const at::Tensor &w) {
  std::this_thread::sleep_for(kLayer);
  at::Tensor y = x.detach().clone();
  if (at::GradMode::is_enabled() && (x.requires_grad() || w.requires_grad())) {
    const auto node = std::make_shared<ag::bench::SleepBackward>();
    node->set_next_edges(ag::collect_next_edges(x, w));
    ag::create_gradient_edge(y, node);
  }
  return y;
}

TORCH_LIBRARY_FRAGMENT(aten, library) { // where the source text of a model finds it
  library.def("pipec_bench_sleep(Tensor x, Tensor w) -> Tensor");
  library.impl("pipec_bench_sleep",
               torch::dispatch(c10::DispatchKey::CompositeImplicitAutograd, TORCH_FN(sleepLayer)));
}

void writeModel(const std::string &path, size_t layers) {
  test::SavedModule model{.name = "Sleeper"};
  std::string source = "def forward(self, x):\n";
  for (size_t i = 0; i < layers; ++i) {
    model.modules.push_back(
        {fmt::format("l{}", i),
         {.name = fmt::format("Layer{}", i),
          .parameters = {{"w", at::ones({1}).set_requires_grad(true)}},
          .source = "def forward(self, x):\n    return torch.pipec_bench_sleep(x, self.w)\n"}});
    source += fmt::format("    x = self.l{}.forward(x)\n", i);
  }
  model.source = source + "    return torch.mean(x)\n";
  std::ofstream(path, std::ios::binary) << test::bytesOf(model);
}

std::string compiled(const std::string &directory, size_t stages, size_t layers) {
  const std::string model = directory + "/sleeper.pt";
  writeModel(model, layers);
  CompileOptions options;
  options.mode = Mode::Train;
  options.recompute = RecomputeChoice::Never;
  options.cost = AnalyticCosts();
  options.inputs = "f32[1,1]";
  for (size_t s = 1; s < stages; ++s)
    options.cuts.push_back(AtModule{fmt::format("l{}", s * layers / stages)});
  options.schedule = NamedSchedule{"gpipe"};
  const std::string artifact = fmt::format("{}/{}.pipe", directory, stages);
  Compiler compiler = must(Compiler::load(model));
  must(compiler.compile(options, artifact, /*force=*/true));
  return artifact;
}

/// Median time of a step and its simulation, in ms.
std::pair<double, double> stepOf(const std::string &artifact, const std::string &schedule,
                                 int64_t microBatches, size_t layersPerStage) {
  PipelineOptions options;
  options.microBatches = microBatches;
  options.scheduleName = schedule;
  options.threads = 1;
  options.training.emplace();
  Pipeline pipeline = must(Pipeline::load(artifact, options));
  const std::vector<c10::IValue> batch = {at::ones({microBatches, 1})};
  std::vector<double> times;
  for (int step = -1; step < 5; ++step) {
    const auto start = std::chrono::steady_clock::now();
    must(pipeline.step(batch));
    if (step >= 0)
      times.push_back(
          std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
              .count());
  }
  const RunTrace trace = must(pipeline.trace());
  const int64_t time = kLayerNs * static_cast<int64_t>(layersPerStage);
  ProgramCosts costs;
  costs.stages.assign(pipeline.plan().stages.size(),
                      {.forward = time, .inputGrad = time, .weightGrad = time});
  const SimulatedRun run =
      must(simulate(trace.program, pipeline.plan(), trace.shape, costs, /*keepIntervals=*/false));
  return {medianOf(times), static_cast<double>(run.makespan) / 1e6};
}

} // namespace

int main(int argc, char **argv) {
  size_t ranks = 8;
  int64_t microBatches = 16;
  bool isRight = argc >= 2 && argc % 2 == 0;
  for (int a = 2; a + 1 < argc && isRight; a += 2) {
    const std::string name = argv[a];
    if (name == "--ranks")
      ranks = std::strtoull(argv[a + 1], nullptr, 10);
    else if (name == "--microbatches")
      microBatches = std::strtoll(argv[a + 1], nullptr, 10);
    else
      isRight = false;
  }
  if (!isRight || ranks == 0 || microBatches <= 0) {
    fmt::print(stderr, "usage: bench-sleep DIRECTORY [--ranks P] [--microbatches M]\n");
    return 2;
  }
  std::filesystem::create_directories(argv[1]);
  const size_t layers = 2 * ranks;
  const std::string one = compiled(argv[1], ranks, layers),
                    two = compiled(argv[1], 2 * ranks, layers);
  fmt::print("sleeping stages: {} ranks, {} micro-batches, F, I and W of a rank {} ms each\n"
             "{:<18}{:>12}{:>14}{:>10}{:>10}\n",
             ranks, microBatches, 2 * kLayer.count(), "schedule", "step, ms", "simulated, ms",
             "ratio", "of 1f1b");
  double first = 0;
  for (const auto &[name, stagesPerRank] : bench::trainingSchedules(ranks, microBatches)) {
    const auto [step, simulated] =
        stepOf(stagesPerRank == 2 ? two : one, name, microBatches, 2 / stagesPerRank);
    first = first > 0 ? first : step;
    fmt::print("{:<18}{:>12.1f}{:>14.1f}{:>10.3f}{:>10.3f}\n", name, step, simulated,
               step / simulated, step / first);
    std::fflush(stdout);
  }
}
