// Test runs side by side: each with the settings that decide bits, and with results that do not
// depend on how many threads there are.
#include "compiler/ParallelRuns.h"

#include "compiler/RunProgress.h"
#include "tests/support/Matchers.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/jit/python/update_graph_executor_opt.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

namespace pipec {
namespace {

const std::vector<int64_t> kFourRuns{1, 4, 3, 2}; // their weights

TEST(ParallelRuns, AreDoneOnceEachTheHeaviestFirst) {
  std::vector<size_t> order;
  EXPECT_TRUE(succeeded(forEachParallel(kFourRuns, 1, [&](size_t i) {
    order.push_back(i);
    return llvm::Error::success();
  })));
  EXPECT_EQ(order, (std::vector<size_t>{1, 2, 3, 0}));
  EXPECT_TRUE(succeeded(forEachParallel({}, 4, [](size_t) {
    ADD_FAILURE();
    return llvm::Error::success();
  })));
}

TEST(ParallelRuns, RunAtTheSameTime) {
  std::atomic<int> inside = 0;
  std::atomic<bool> met = false;
  EXPECT_TRUE(succeeded(forEachParallel({1, 1}, 2, [&](size_t) {
    ++inside;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!met && std::chrono::steady_clock::now() < end) {
      if (inside == 2)
        met = true;
      std::this_thread::yield();
    }
    return llvm::Error::success();
  })));
  EXPECT_TRUE(met);
}

TEST(ParallelRuns, HaveTheSettingsOfATestRun) {
  const int before = at::get_num_threads();
  at::set_num_threads(3);
  std::mutex mutex;
  std::vector<int> threads;
  EXPECT_TRUE(succeeded(forEachParallel(kFourRuns, 3, [&](size_t) {
    std::lock_guard lock(mutex);
    threads.push_back(at::get_num_threads());
    EXPECT_FALSE(at::GradMode::is_enabled());
    EXPECT_FALSE(torch::jit::getGraphExecutorOptimize());
    return llvm::Error::success();
  })));
  EXPECT_EQ(threads, (std::vector<int>{1, 1, 1, 1}));
  EXPECT_EQ(at::get_num_threads(), 3);
  EXPECT_TRUE(at::GradMode::is_enabled());
  int later = 0; // the default of threads that start later is the caller's again, too
  std::thread([&] { later = at::get_num_threads(); }).join();
  EXPECT_EQ(later, 3);
  at::set_num_threads(before);
}

TEST(ParallelRuns, FailAsTheFirstOneWould) {
  for (size_t threads : {1, 2, 4})
    EXPECT_TRUE(failedWith(forEachParallel(kFourRuns, threads,
                                           [](size_t i) -> llvm::Error {
                                             if (i == 0)
                                               return llvm::Error::success();
                                             return failf(ExitCode::Usage, "run {} fails", i);
                                           }),
                           ExitCode::Usage, "run 1 fails"));
}

TEST(ParallelRuns, AnExceptionIsAnError) {
  EXPECT_TRUE(failedWith(
      forEachParallel({1, 1}, 2, [](size_t) -> llvm::Error { throw std::runtime_error("broken"); }),
      ExitCode::Internal, "a test run: broken"));
}

TEST(ParallelRuns, ThereIsAlwaysAThread) {
  EXPECT_GE(threadsForRuns(), 1u);
  EXPECT_LE(threadsForRuns(), std::max(1u, std::thread::hardware_concurrency()));
}

TEST(RunProgress, SaysHowManyRunsAreDoneAndHowLongTheRestTakes) {
  std::vector<ProgressEvent> events;
  const ProgressCallback callback = [&](const ProgressEvent &event) { events.push_back(event); };
  const std::vector<int64_t> weights{3, 1};
  RunProgress progress(callback, "running the stages", weights);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  progress.ended(1);
  progress.ended(0);
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].step, "running the stages");
  EXPECT_EQ(events[0].unit, "runs");
  EXPECT_EQ(events[0].done, 0u);
  EXPECT_EQ(events[0].total, 2u);
  EXPECT_EQ(events[0].leftNs, -1); // nothing is known yet
  EXPECT_EQ(events[1].done, 1u);
  EXPECT_GE(events[1].leftNs, 60'000'000); // three times what the first one took
  EXPECT_EQ(events[2].done, 2u);
  EXPECT_EQ(events[2].leftNs, -1);
}

} // namespace
} // namespace pipec
