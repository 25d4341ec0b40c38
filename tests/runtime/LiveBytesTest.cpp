// The memory that a training holds after every op is what the simulator says: trainings on devices
// that have memory of their own, whose allocator is watched.
#include "compiler/Compiler.h"
#include "ir/schedule/OpMemory.h"
#include "runtime/Pipeline.h"
#include "runtime/RunTrace.h"
#include "tests/runtime/OwnMemory.h"
#include "tests/runtime/SmallPipeline.h"
#include "tests/support/Matchers.h"
#include "tests/support/TestModels.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/ones.h>
#include <c10/core/CPUAllocator.h>

#include <chrono>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <limits>
#include <mutex>
#include <thread>

namespace pipec {
namespace {

constexpr int64_t kSamples = 32, kWidth = 16, kLayersPerStage = 2, kMicroBatches = 7;
constexpr int64_t kLayerBytes = kSamples * kWidth * 4; // of a result
constexpr int64_t kWeightBytes = kWidth * kWidth * 4;

int64_t nowNs() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

/// A piece of memory: who allocated and who freed it, and when.
struct Piece {
  int64_t bytes = 0;
  std::thread::id by, freedBy;
  int64_t from = 0, to = std::numeric_limits<int64_t>::max();
};

/// Notes every piece of memory of tensors while it is LibTorch's allocator.
class NotingAllocator final : public c10::Allocator {
public:
  static NotingAllocator &get() {
    static NotingAllocator *const it = new NotingAllocator; // tensors may outlive main
    return *it;
  }
  void begin() {
    base_ = c10::GetCPUAllocator();
    c10::SetCPUAllocator(this, kPriority);
    std::lock_guard<std::mutex> lock(mutex_);
    first_ = pieces_.size();
  }
  /// Since begin().
  std::vector<Piece> end() {
    c10::SetCPUAllocator(base_, kPriority);
    std::lock_guard<std::mutex> lock(mutex_);
    return {pieces_.begin() + static_cast<ptrdiff_t>(first_), pieces_.end()};
  }

  c10::DataPtr allocate(size_t bytes) override {
    auto own = std::make_unique<Own>();
    own->memory = base_->allocate(bytes);
    void *const memory = own->memory.get();
    {
      std::lock_guard<std::mutex> lock(mutex_);
      own->piece = &pieces_.emplace_back();
      *own->piece = {.bytes = static_cast<int64_t>(bytes),
                     .by = std::this_thread::get_id(),
                     .freedBy = {},
                     .from = nowNs()};
    }
    return {memory, own.release(), &release, c10::Device(c10::DeviceType::CPU)};
  }
  void copy_data(void *to, const void *from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

private:
  struct Own {
    c10::DataPtr memory;
    Piece *piece = nullptr;
  };
  static constexpr uint8_t kPriority = 100; // not less than that of StreamMonitor

  static void release(void *context) {
    const std::unique_ptr<Own> own(static_cast<Own *>(context));
    std::lock_guard<std::mutex> lock(get().mutex_);
    own->piece->freedBy = std::this_thread::get_id();
    own->piece->to = nowNs();
  }

  c10::Allocator *base_ = nullptr;
  std::mutex mutex_;
  std::deque<Piece> pieces_; // addresses stay
  size_t first_ = 0;
};

/// Notes the time of every fence and the thread of its rank. Inputs are counted nowhere.
class NotingMemory final : public OwnMemory {
public:
  Fence mark() override {
    thread = std::this_thread::get_id();
    marks.push_back(nowNs());
    return {.hostNs = marks.back(), .event = {}};
  }

  std::vector<int64_t> marks;
  std::thread::id thread;
};

/// While it lives, "own" is the name of such a device; one for each rank.
class OwnMemories {
public:
  OwnMemories() { made().clear(); }
  static std::vector<std::shared_ptr<NotingMemory>> &made() {
    static std::vector<std::shared_ptr<NotingMemory>> devices;
    return devices;
  }

private:
  TestDevices devices_{[](const std::string &) -> std::shared_ptr<Device> {
    made().push_back(std::make_shared<NotingMemory>());
    return made().back();
  }};
};

/// Layers tanh(x) @ w, of which F keeps one value: the product needs what tanh gave, tanh needs it
/// too, and nothing needs the product, which is what goes over a cut.
std::string compileLayers(size_t stages, RecomputeChoice recompute) {
  test::SavedModule model{.name = "Layers"};
  std::string source = "def forward(self, x):\n";
  CompileOptions options;
  for (size_t i = 0; i < stages * kLayersPerStage; ++i) {
    const std::string layer = fmt::format("l{}", i);
    model.modules.push_back(
        {layer,
         {.name = fmt::format("Layer{}", i),
          .parameters = {{"w", at::eye(kWidth).set_requires_grad(true)}},
          .source = "def forward(self, x):\n    return torch.matmul(torch.tanh(x), self.w)\n"}});
    source += fmt::format("    x = self.{}.forward(x)\n", layer);
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
  Compiler compiler = take(Compiler::load(path));
  EXPECT_TRUE(succeeded(compiler.compile(options, artifact, /*force=*/true)));
  return artifact;
}

/// What a micro-batch holds, worked out by hand. F keeps what tanh gave in every layer, the last
/// stage also its result, which the loss squares. A pending W needs what tanh gave and the gradient
/// of every product.
ProgramCosts costsOf(size_t stages, bool recomputed) {
  ProgramCosts costs;
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

/// The bytes that the thread holds at that time, of those that it also frees. The receiver frees
/// the values that a rank sends. The gradient of the loss, a single number, does not count.
int64_t heldAt(llvm::ArrayRef<Piece> pieces, std::thread::id thread, int64_t time) {
  int64_t held = 0;
  for (const Piece &piece : pieces)
    if (piece.bytes > 4 && piece.by == thread && piece.freedBy == thread && piece.from <= time &&
        time < piece.to)
      held += piece.bytes;
  return held;
}

struct LiveRun {
  std::string schedule;
  size_t stages;
  RecomputeChoice recompute = RecomputeChoice::Never;
};

/// Needs OwnMemories.
Pipeline loadOnOwnMemories(const LiveRun &run) {
  PipelineOptions options;
  options.microBatches = kMicroBatches;
  options.threads = 1;
  options.devices = {"own"};
  options.scheduleName = run.schedule;
  options.training.emplace();
  return take(Pipeline::load(compileLayers(run.stages, run.recompute), options));
}

class LiveBytes : public testing::TestWithParam<LiveRun> {};

TEST_P(LiveBytes, AreTheSimulators) {
  if (std::getenv("PIPEC_TEST_STREAMS"))
    GTEST_SKIP() << "the devices here are its own";
  const LiveRun &run = GetParam();
  const bool recomputes = run.recompute == RecomputeChoice::Always;
  const OwnMemories devices;
  Pipeline pipeline = loadOnOwnMemories(run);
  const std::vector<c10::IValue> batch = {at::ones({kMicroBatches * kSamples, kWidth})};
  take(pipeline.step(batch));
  for (const std::shared_ptr<NotingMemory> &device : OwnMemories::made())
    device->marks.clear();
  NotingAllocator::get().begin();
  take(pipeline.step(batch));
  const std::vector<Piece> pieces = NotingAllocator::get().end();
  const RunTrace trace = take(pipeline.trace());
  const ProgramCosts costs = costsOf(run.stages, recomputes);
  ASSERT_EQ(trace.program.ranks.size(), OwnMemories::made().size());
  size_t compared = 0;
  for (size_t r = 0; r < trace.program.ranks.size(); ++r) {
    OpMemory memory(pipeline.plan(), trace.shape, costs);
    const NotingMemory &device = *OwnMemories::made()[r];
    int64_t expected = 0;
    auto mark = device.marks.begin();
    for (const Op &op : trace.program.ranks[r]) {
      const std::string what = fmt::format("rank {}, before {}", r, toString(op));
      switch (op.kind) {
      case OpKind::Post: // memory is counted from here; inside one process it begins with TAKE
        break;
      case OpKind::Take:
        expected += memory.bytesOf(op);
        ++mark;
        break;
      case OpKind::Send:
        ++mark;
        break;
      case OpKind::Forward:
      case OpKind::Recompute:
      case OpKind::Backward:
      case OpKind::InputGrad:
      case OpKind::WeightGrad: {
        ASSERT_LT(mark + 1, device.marks.end()) << what;
        EXPECT_EQ(heldAt(pieces, device.thread, *mark), expected) << what;
        ++compared;
        mark += 2;
        expected += memory.atStart(op) - memory.atEnd(r, op);
        break;
      }
      default:
        EXPECT_EQ(expected, 0) << what;
      }
    }
  }
  EXPECT_GE(compared, 2 * kMicroBatches * run.stages);
}

/// A step leaves the gradients of the weights, and frees what the step before it left.
TEST_P(LiveBytes, StayTheSameFromStepToStep) {
  if (std::getenv("PIPEC_TEST_STREAMS"))
    GTEST_SKIP() << "the devices here are its own";
  const LiveRun &run = GetParam();
  const OwnMemories devices;
  Pipeline pipeline = loadOnOwnMemories(run);
  const std::vector<c10::IValue> batch = {at::ones({kMicroBatches * kSamples, kWidth})};
  auto leftBy = [&](int steps) {
    NotingAllocator::get().begin();
    for (int step = 0; step < steps; ++step)
      take(pipeline.step(batch));
    int64_t left = 0;
    for (const Piece &piece : NotingAllocator::get().end())
      if (piece.freedBy == std::thread::id())
        left += piece.bytes;
    return left;
  };
  leftBy(2);
  const int64_t one = leftBy(1);
  EXPECT_GE(one, static_cast<int64_t>(run.stages * kLayersPerStage) * kWeightBytes);
  EXPECT_EQ(leftBy(5), one);
}

INSTANTIATE_TEST_SUITE_P(
    All, LiveBytes,
    testing::Values(LiveRun{"gpipe", 3}, LiveRun{"1f1b", 3},
                    LiveRun{"1f1b", 3, RecomputeChoice::Always}, LiveRun{"eager-1f1b", 3},
                    LiveRun{"zb-h1", 3}, LiveRun{"zb-h2", 3}, LiveRun{"interleaved-1f1b", 6},
                    LiveRun{"zb-v", 4}, LiveRun{"v-half", 4}, LiveRun{"v-min", 4},
                    LiveRun{"gpipe", 4, RecomputeChoice::Always}),
    [](const testing::TestParamInfo<LiveRun> &one) {
      std::string name =
          one.param.schedule + (one.param.recompute == RecomputeChoice::Always ? "_recompute" : "");
      for (char &letter : name)
        letter = letter == '-' ? '_' : letter;
      return name;
    });

} // namespace
} // namespace pipec
