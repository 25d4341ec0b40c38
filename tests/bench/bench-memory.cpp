// bench-memory: how much memory of tensors a rank needs under different schedules.
//
//   bench-memory DIRECTORY [--ranks P]
//
// A chain of equal layers is compiled in DIRECTORY, with one and with two stages per rank, and
// trained under each schedule without an optimizer. An allocator counts the bytes of tensors that
// each thread has allocated and that no thread has freed yet. "most": the largest such
// number of any rank thread, median of 5 steps, with the gradients of the weights; weights are not
// part of it, they are mapped files. "simulated": the peak of the same program by
// ir/schedule/Simulate.h, with what F and I of these layers hold, and beside it, as the compile
// plans memory, the gradients of the rank's weights and space for one result and its gradient.
#include "compiler/Compiler.h"
#include "ir/schedule/Simulate.h"
#include "ir/values/ValueTree.h"
#include "llvm/Support/Error.h"
#include "runtime/Pipeline.h"
#include "runtime/RunTrace.h"
#include "tests/support/TestModels.h"

#include <fmt/format.h>

#include <ATen/Functions.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>

using namespace pipec;

llvm::ExitOnError must; // a benchmark that fails says why

namespace {

/// Of one thread.
struct Count {
  std::atomic<int64_t> live = 0, most = 0;
};

std::mutex countsMutex;
std::vector<std::shared_ptr<Count>> counts;

const std::shared_ptr<Count> &ownCount() {
  thread_local const std::shared_ptr<Count> own = [] {
    auto count = std::make_shared<Count>();
    std::lock_guard<std::mutex> lock(countsMutex);
    counts.push_back(count);
    return count;
  }();
  return own;
}

struct Block {
  c10::DataPtr memory;
  std::shared_ptr<Count> of;
  int64_t bytes = 0;
};

class CountingAllocator final : public c10::Allocator {
public:
  explicit CountingAllocator(c10::Allocator &base) : base_(base) {}

  c10::DataPtr allocate(size_t bytes) override {
    auto block = std::make_unique<Block>();
    block->memory = base_.allocate(bytes);
    block->of = ownCount();
    block->bytes = static_cast<int64_t>(bytes);
    const int64_t live = block->of->live += block->bytes;
    if (live > block->of->most) // only its own thread raises it
      block->of->most = live;
    void *const memory = block->memory.get();
    return {memory, block.release(), &release, c10::Device(c10::DeviceType::CPU)};
  }
  void copy_data(void *to, const void *from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

private:
  static void release(void *context) {
    const std::unique_ptr<Block> block(static_cast<Block *>(context));
    block->of->live -= block->bytes;
  }
  c10::Allocator &base_;
};

constexpr size_t kWidth = 64, kLayersPerStage = 2;
constexpr int64_t kSamples = 256;
constexpr int64_t kResultBytes = kSamples * kWidth * 4, kWeightBytes = kWidth * kWidth * 4;

/// After tanh, F holds one value per layer: the result of one layer is what the next one keeps.
/// After silu it holds two. After I, two are left: what the product read and the gradient of its
/// result. Stage 0 has no input gradient: its W makes those of the inner products.
ProgramCosts costsOf(const std::string &activation, size_t stages, size_t layers) {
  const auto inStage = static_cast<int64_t>(layers / stages);
  const bool keepsOne = activation == "torch.tanh";
  ProgramCosts costs;
  for (size_t s = 0; s < stages; ++s) {
    const int64_t kept = (keepsOne ? 1 : 2) * inStage;
    const int64_t pending = s == 0 && keepsOne ? inStage + 1 : 2 * inStage;
    StageCosts stage{.forward = 1, .inputGrad = 1, .weightGrad = 1};
    stage.heldByForward = kept * kResultBytes;
    stage.freedByInputGrad = (kept - pending) * kResultBytes;
    costs.stages.push_back(stage);
  }
  return costs;
}

void writeModel(const std::string &path, const std::string &activation, size_t layers) {
  test::SavedModule model{.name = "Chain"};
  std::string source = "def forward(self, x):\n";
  for (size_t i = 0; i < layers; ++i) {
    model.modules.push_back(
        {fmt::format("l{}", i),
         {.name = fmt::format("Layer{}", i),
          .parameters = {{"w", at::eye(kWidth).set_requires_grad(true)}},
          .source = fmt::format("def forward(self, x):\n    return {}(torch.matmul(x, self.w))\n",
                                activation)}});
    source += fmt::format("    x = self.l{}.forward(x)\n", i);
  }
  model.source = source + "    return torch.mean(x * x)\n";
  std::ofstream(path, std::ios::binary) << test::bytesOf(model);
}

std::string compiled(const std::string &directory, const std::string &activation, size_t stages,
                     size_t layers) {
  const std::string model = directory + "/chain.pt";
  writeModel(model, activation, layers);
  CompileOptions options;
  options.mode = Mode::Train;
  options.recompute = RecomputeChoice::Never;
  options.cost = AnalyticCosts();
  options.inputs = fmt::format("f32[{},{}]", kSamples, kWidth);
  for (size_t s = 1; s < stages; ++s)
    options.cuts.push_back(AtModule{fmt::format("l{}", s * layers / stages)});
  options.schedule = NamedSchedule{"gpipe"};
  const std::string artifact = fmt::format("{}/{}.pipe", directory, stages);
  Compiler compiler = must(Compiler::load(model));
  must(compiler.compile(options, artifact, /*force=*/true));
  return artifact;
}

struct Most {
  int64_t measured = 0, simulated = 0;
};

Most mostOf(const std::string &artifact, const std::string &schedule, int64_t microBatches,
            const std::string &activation, size_t layers) {
  PipelineOptions options;
  options.microBatches = microBatches;
  options.scheduleName = schedule;
  options.training.emplace();
  {
    std::lock_guard<std::mutex> lock(countsMutex);
    counts.clear(); // of threads that are gone
  }
  const std::vector<c10::IValue> batch = {
      at::ones({kSamples * microBatches, static_cast<int64_t>(kWidth)})};
  Pipeline pipeline = must(Pipeline::load(artifact, options));
  must(pipeline.step(batch));
  std::vector<int64_t> mosts;
  for (int step = 0; step < 5; ++step) {
    for (const std::shared_ptr<Count> &count : counts)
      count->most = count->live.load();
    must(pipeline.step(batch));
    int64_t most = 0;
    for (const std::shared_ptr<Count> &count : counts)
      if (count != ownCount())
        most = std::max(most, count->most.load());
    mosts.push_back(most);
  }
  std::nth_element(mosts.begin(), mosts.begin() + 2, mosts.end());
  const RunTrace trace = must(pipeline.trace());
  const Plan &plan = pipeline.plan();
  ProgramCosts costs = costsOf(activation, plan.stages.size(), layers);
  // In one process a message is handed over by reference: it has no memory of its own.
  costs.channelBytes.assign(plan.channels.size(), 0);
  const SimulatedRun run = must(simulate(trace.program, plan, trace.shape, costs));
  const size_t ranks = trace.program.ranks.size();
  return {mosts[2], *std::max_element(run.peakBytes.begin(), run.peakBytes.end()) +
                        static_cast<int64_t>(layers / ranks) * kWeightBytes + 2 * kResultBytes};
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 2 && !(argc == 4 && std::string(argv[2]) == "--ranks")) {
    fmt::print(stderr, "usage: bench-memory DIRECTORY [--ranks P]\n");
    return 2;
  }
  const size_t ranks = argc == 4 ? std::strtoull(argv[3], nullptr, 10) : 4;
  std::filesystem::create_directories(argv[1]);
  static CountingAllocator counting(*c10::GetCPUAllocator());
  c10::SetCPUAllocator(&counting, 1);
  const size_t layers = 2 * ranks * kLayersPerStage;
  for (const char *activation : {"torch.tanh", "torch.silu"}) {
    const std::string one = compiled(argv[1], activation, ranks, layers),
                      two = compiled(argv[1], activation, 2 * ranks, layers);
    fmt::print("{} ranks, {} layers with {}; a result of a layer has {} KiB\n"
               "{:<18}{:>14}{:>12}{:>16}{:>8}\n",
               ranks, layers, activation, kResultBytes / 1024, "schedule", "micro-batches",
               "most, KiB", "simulated, KiB", "ratio");
    for (const int64_t m : {8, 64})
      for (const std::string name :
           {"gpipe", "1f1b", "zb-h1", "zb-h2", "interleaved-1f1b", "zb-v", "v-half", "v-min"}) {
        const bool isDouble = name == "interleaved-1f1b" || name[0] == 'v' || name == "zb-v";
        const Most most = mostOf(isDouble ? two : one, name, m, activation, layers);
        fmt::print("{:<18}{:>14}{:>12}{:>16}{:>8.3f}\n", name, m, most.measured / 1024,
                   most.simulated / 1024,
                   static_cast<double>(most.measured) / static_cast<double>(most.simulated));
        std::fflush(stdout);
      }
  }
}
