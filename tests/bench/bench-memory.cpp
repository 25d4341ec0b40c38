// bench-memory: how much memory of tensors a rank needs under different schedules.
//
//   bench-memory DIRECTORY [--ranks P]
//
// A chain of equal layers is compiled in DIRECTORY, with one and with two stages per rank, and
// trained under each schedule without an optimizer. An allocator counts the bytes of tensors that
// each thread has allocated and that no thread has freed yet. "most": the largest such
// number of any rank thread, median of 5 steps, with the gradients of the weights; weights are not
// part of it, they are mapped files.
#include "compiler/Compiler.h"
#include "ir/values/ValueTree.h"
#include "llvm/Support/Error.h"
#include "runtime/Pipeline.h"
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

/// After tanh, F holds one value per layer: the result of one layer is what the next one keeps.
/// After silu it holds two, of which I frees one.
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

int64_t mostOf(const std::string &artifact, const std::string &schedule, int64_t microBatches) {
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
  return mosts[2];
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
    fmt::print("{} ranks, {} layers with {}; a result of a layer has {} KiB\n{:<18}{:>14}{:>12}\n",
               ranks, layers, activation, kSamples * kWidth * 4 / 1024, "schedule", "micro-batches",
               "most, KiB");
    for (const int64_t m : {8, 64})
      for (const std::string name :
           {"gpipe", "1f1b", "zb-h1", "zb-h2", "interleaved-1f1b", "zb-v", "v-half", "v-min"}) {
        const bool isDouble = name == "interleaved-1f1b" || name[0] == 'v' || name == "zb-v";
        fmt::print("{:<18}{:>14}{:>12}\n", name, m, mostOf(isDouble ? two : one, name, m) / 1024);
        std::fflush(stdout);
      }
  }
}
