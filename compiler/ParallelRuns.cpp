#include "compiler/ParallelRuns.h"

#include "ir/InferenceSettings.h"
#include "ir/TorchError.h"
#include "llvm/Support/Threading.h"

#include <algorithm>
#include <fstream>
#include <mutex>
#include <numeric>
#include <optional>
#include <system_error>
#include <thread>
#include <unistd.h>

namespace pipec {

namespace {

/// Resident memory without mapped files; 0 if the system does not tell.
int64_t ownMemoryBytes() {
  int64_t size = 0, resident = 0, shared = 0; // in pages
  std::ifstream statm("/proc/self/statm");
  if (!(statm >> size >> resident >> shared))
    return 0;
  return (resident - shared) * sysconf(_SC_PAGESIZE);
}

/// Hands out the runs and keeps the error of the lowest index. Hand-made because the thread
/// pools of LLVM and LibTorch cannot drop tasks after an error.
class RunQueue {
public:
  explicit RunQueue(llvm::ArrayRef<int64_t> weights) : order_(weights.size()) {
    std::iota(order_.begin(), order_.end(), size_t(0));
    std::stable_sort(order_.begin(), order_.end(),
                     [&](size_t a, size_t b) { return weights[a] > weights[b]; });
  }

  /// The next run, unless an earlier one has failed already.
  std::optional<size_t> take() {
    std::lock_guard lock(mutex_);
    while (next_ < order_.size())
      if (const size_t index = order_[next_++]; !error_ || index < failed_)
        return index;
    return std::nullopt;
  }

  void fail(size_t index, llvm::Error error) {
    std::lock_guard lock(mutex_);
    if (error_ && failed_ < index)
      return llvm::consumeError(std::move(error)); // the same error whatever the threads do
    failed_ = index;
    error_ = describe(std::move(error));
  }

  llvm::Error takeError() {
    return error_ ? makeError(error_->code, error_->message, error_->help) : llvm::Error::success();
  }

private:
  std::mutex mutex_;
  std::vector<size_t> order_;
  size_t next_ = 0;
  size_t failed_ = 0;
  std::optional<ErrorText> error_;
};

void work(RunQueue &queue, llvm::function_ref<llvm::Error(size_t)> run) {
  InferenceSettings settings(/*intraOpThreads=*/1);
  while (const std::optional<size_t> index = queue.take())
    if (llvm::Error error =
            guardTorchError(ExitCode::Internal, "a test run", [&] { return run(*index); }))
      queue.fail(*index, std::move(error));
}

} // namespace

size_t threadsForRuns() {
  const size_t cores = llvm::hardware_concurrency().compute_thread_count();
  const int64_t each = std::max<int64_t>(1, ownMemoryBytes());
  const int64_t most = int64_t(sysconf(_SC_PHYS_PAGES)) / 2 * sysconf(_SC_PAGESIZE);
  return std::max<size_t>(1, std::min(cores, static_cast<size_t>(most / each)));
}

llvm::Error forEachParallel(llvm::ArrayRef<int64_t> weights, size_t threads,
                            llvm::function_ref<llvm::Error(size_t)> run) {
  // Workers set their own number of intra-op threads, which also becomes the default of threads
  // that start later. This thread's settings restore it.
  InferenceSettings settings(/*intraOpThreads=*/1);
  RunQueue queue(weights);
  std::vector<std::thread> others;
  try {
    for (size_t i = 1; i < std::min(threads, weights.size()); ++i)
      others.emplace_back([&] { work(queue, run); });
  } catch (const std::system_error &) {
    // No more threads: the existing ones do the runs.
  }
  work(queue, run);
  for (std::thread &other : others)
    other.join();
  return queue.takeError();
}

} // namespace pipec
