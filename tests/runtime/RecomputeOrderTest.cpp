// The order of recomputations, and that nothing of a micro-batch outlives its backward: what the
// suite of torchgpipe tests of its checkpointing.
#include "runtime/RunTrace.h"
#include "tests/runtime/SmallTraining.h"
#include "tests/support/Matchers.h"

#include <gtest/gtest.h>

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <thread>

namespace pipec {
namespace {

constexpr int64_t kMicroBatches = 4; // of runTrained()

class RecomputeOrder : public testing::TestWithParam<const char *> {};

/// Each stage runs F once, later R, and its backward right after that, in the order of the program
/// and in time.
TEST_P(RecomputeOrder, IsThatOfTheProgram) {
  const Training how{.schedule = GetParam(), .devices = {}, .recompute = RecomputeChoice::Always};
  Pipeline pipeline = take(Pipeline::load(compileTrained(how), runTrained(how)));
  take(pipeline.step(trainingBatch()));
  const RunTrace trace = take(pipeline.trace());
  const bool isTimed = !std::getenv("PIPEC_TEST_STREAMS"); // whose fences measure nothing
  size_t recomputed = 0;
  for (size_t r = 0; r < trace.program.ranks.size(); ++r) {
    std::set<std::pair<uint32_t, int32_t>> forwards; // stage and micro-batch
    const Op *last = nullptr;                        // that computes
    int64_t ended = 0;
    for (size_t i = 0; i < trace.program.ranks[r].size(); ++i) {
      const Op &op = trace.program.ranks[r][i];
      const Timing::Interval time = trace.ranks[r][i];
      if (!isCompute(op.kind))
        continue;
      const std::string what = fmt::format("rank {}: {}", r, toString(op));
      if (isTimed) {
        EXPECT_GE(time.start, ended) << what << " is after what the program has before it";
      }
      const std::pair<uint32_t, int32_t> key(op.stage, op.microBatch);
      if (op.kind == OpKind::Forward) {
        EXPECT_TRUE(forwards.insert(key).second) << what << " runs twice";
      } else {
        EXPECT_TRUE(forwards.count(key)) << what << " is after its forward";
      }
      if (op.kind == OpKind::Backward || op.kind == OpKind::InputGrad) {
        ASSERT_NE(last, nullptr) << what;
        EXPECT_EQ(last->kind, OpKind::Recompute) << what;
        EXPECT_EQ(std::pair(last->stage, last->microBatch), key) << what;
        ++recomputed;
      }
      last = &op;
      ended = time.end;
    }
  }
  EXPECT_EQ(recomputed, 4 * kMicroBatches) << "every stage and micro-batch";
}

INSTANTIATE_TEST_SUITE_P(Schedules, RecomputeOrder,
                         testing::Values("gpipe", "1f1b", "zb-h1", "interleaved-1f1b", "zb-v"),
                         [](const auto &one) {
                           std::string name = one.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

/// Weak references to what the forwards of the last stage make, looked at in the next forward.
class Activations {
public:
  /// `losses`: how often a micro-batch computes its loss.
  static void begin(size_t losses) {
    const std::lock_guard<std::mutex> lock(mutex());
    seen() = {.perMicroBatch = losses};
  }
  static std::unique_ptr<at::ObserverContext> atStart(const at::RecordFunction &) {
    return nullptr;
  }
  static void atEnd(const at::RecordFunction &function, at::ObserverContext *) {
    if (!at::GradMode::is_enabled()) // a backward
      return;
    const std::lock_guard<std::mutex> lock(mutex());
    Seen &now = seen();
    const std::thread::id thread = std::this_thread::get_id();
    for (const c10::IValue &value : function.outputs())
      if (value.isTensor() && value.toTensor().defined() && value.toTensor().requires_grad() &&
          value.toTensor().numel() == 3 * 16) // samples of a micro-batch
        now.made[thread].push_back(
            {decltype(Made::tensor)(value.toTensor().getIntrusivePtr()), now.losses});
    if (std::string(function.name()) != "aten::mse_loss")
      return;
    if (now.losses % now.perMicroBatch == 0 && now.losses > 0)
      for (const Made &each : now.made[thread])
        if (each.losses < now.losses) // of an earlier micro-batch, whose backward has ended
          ++(each.tensor.expired() ? now.gone : now.kept);
    ++now.losses;
  }

  struct Made {
    c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl> tensor;
    size_t losses; // before it
  };
  struct Seen {
    size_t perMicroBatch = 1;
    size_t losses = 0, gone = 0, kept = 0;
    std::map<std::thread::id, std::vector<Made>> made = {};
  };
  static Seen &seen() {
    static Seen all;
    return all;
  }

private:
  static std::mutex &mutex() {
    static std::mutex one;
    return one;
  }
};

/// Under 1f1b the last stage runs F B of each micro-batch before the next F.
TEST(RecomputeMemory, NothingOfAMicroBatchOutlivesItsBackward) {
  if (std::getenv("PIPEC_TEST_STREAMS"))
    GTEST_SKIP() << "streams keep memory for what is not done";
  for (const RecomputeChoice recompute : {RecomputeChoice::Never, RecomputeChoice::Always}) {
    const Training how{
        .schedule = "1f1b", .devices = {}, .recompute = recompute, .sharesWeight = false};
    Pipeline pipeline = take(Pipeline::load(compileTrained(how), runTrained(how)));
    const size_t losses = recompute == RecomputeChoice::Always ? 2 : 1;
    Activations::begin(losses);
    const at::CallbackHandle handle =
        at::addGlobalCallback(at::RecordFunctionCallback(&Activations::atStart, &Activations::atEnd)
                                  .needsOutputs(true)
                                  .scopes({at::RecordScope::FUNCTION}));
    llvm::Expected<TrainedStep> done = pipeline.step(trainingBatch());
    at::removeCallback(handle);
    ASSERT_TRUE(succeeded(std::move(done)));
    const Activations::Seen &seen = Activations::seen();
    EXPECT_EQ(seen.losses, losses * kMicroBatches);
    EXPECT_GT(seen.gone, 0u);
    EXPECT_EQ(seen.kept, 0u) << "with " << losses << " forwards for a backward";
    Activations::begin(1);
  }
}

} // namespace
} // namespace pipec
