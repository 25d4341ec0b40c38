#include "runtime/RankThreads.h"

#include "ir/support/Check.h"
#include "llvm/ADT/STLExtras.h"
#include "runtime/transport/Spin.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace pipec {

/// Shared with the threads, so that an abandoned thread uses nothing that is destroyed.
struct RankThreads::State {
  std::mutex mutex;
  std::condition_variable wake;        // for the threads: a new job, or the end
  std::condition_variable done;        // for the owner
  std::atomic<uint64_t> jobNumber = 0; // changed under the mutex
  Job job;
  std::vector<uint64_t> finished; // per rank: number of the last job it did
  size_t started = 0;
  size_t ended = 0;
  std::atomic<bool> stop = false; // changed under the mutex
  std::vector<std::thread> threads;
  const Spin spin;

  explicit State(size_t ranks) : finished(ranks, 0), spin(ranks) {}
  void serve(size_t rank);
  std::vector<size_t> unfinished() const;
  bool allFinished() const {
    return llvm::all_of(finished, [&](uint64_t number) { return number == jobNumber; });
  }
};

std::vector<size_t> RankThreads::State::unfinished() const {
  std::vector<size_t> ranks;
  for (size_t rank = 0; rank < finished.size(); ++rank)
    if (finished[rank] != jobNumber)
      ranks.push_back(rank);
  return ranks;
}

void RankThreads::State::serve(size_t rank) {
  std::unique_lock<std::mutex> lock(mutex);
  ++started;
  done.notify_all();
  for (uint64_t seen = 0;; ++seen) {
    lock.unlock();
    spin.whileTrue([&] { return !stop && jobNumber == seen; }); // the next step may begin at once
    lock.lock();
    wake.wait(lock, [&] { return stop || jobNumber > seen; });
    if (stop)
      return;
    Job mine = job;
    lock.unlock();
    (*mine)(rank);
    mine.reset();
    lock.lock();
    finished[rank] = seen + 1;
    done.notify_all();
  }
}

RankThreads::RankThreads(size_t ranks,
                         std::function<void(const std::function<void()> &serve)> around)
    : state_(std::make_shared<State>(ranks)) {
  for (size_t rank = 0; rank < ranks; ++rank)
    state_->threads.emplace_back([state = state_, rank, around] {
      around([&] { state->serve(rank); });
      std::lock_guard<std::mutex> lock(state->mutex);
      ++state->ended;
      state->done.notify_all();
    });
  std::unique_lock<std::mutex> lock(state_->mutex);
  state_->done.wait(lock, [&] { return state_->started == ranks; });
}

RankThreads::~RankThreads() {
  std::unique_lock<std::mutex> lock(state_->mutex);
  state_->stop = true;
  state_->wake.notify_all();
  constexpr std::chrono::seconds kGrace(5);
  bool hung =
      !state_->done.wait_for(lock, kGrace, [&] { return state_->ended == state_->threads.size(); });
  std::vector<std::thread> threads = std::move(state_->threads);
  lock.unlock();
  for (std::thread &thread : threads) {
    if (hung)
      thread.detach();
    else
      thread.join();
  }
}

std::vector<size_t> RankThreads::run(Job job, const std::function<bool()> &failed,
                                     std::chrono::milliseconds grace) {
  std::unique_lock<std::mutex> lock(state_->mutex);
  PIPEC_ASSERT(state_->allFinished(), "a rank is still inside an earlier job");
  state_->job = std::move(job);
  ++state_->jobNumber;
  state_->wake.notify_all();
  state_->done.wait(lock, [&] { return state_->allFinished() || failed(); });
  state_->done.wait_for(lock, grace, [&] { return state_->allFinished(); });
  state_->job.reset();
  return state_->unfinished();
}

std::vector<size_t> RankThreads::unfinished() const {
  std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->unfinished();
}

} // namespace pipec
