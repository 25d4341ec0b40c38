// One thread per rank, started once and used for all steps. Hand-made because a thread pool cannot
// bind a job to its thread, nor abandon one that hangs.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace pipec {

/// Threads that run the same job, each with its rank, step after step. One thread owns and calls
/// it.
class RankThreads {
public:
  /// Starts the threads. Each calls `around`, which must call its argument once and return after
  /// it: its setup before that call holds for all jobs. The constructor returns when every thread
  /// is inside that call.
  RankThreads(size_t ranks, std::function<void(const std::function<void()> &serve)> around);
  /// Ends the threads. A thread that hangs inside a job is abandoned after the grace time, so the
  /// job must own all that it uses.
  ~RankThreads();
  RankThreads(const RankThreads &) = delete;
  RankThreads &operator=(const RankThreads &) = delete;

  /// Shared with threads that may outlive their owner. One that is kept serves all steps.
  using Job = std::shared_ptr<const std::function<void(size_t rank)>>;
  static Job jobOf(std::function<void(size_t rank)> job) {
    return std::make_shared<const std::function<void(size_t rank)>>(std::move(job));
  }

  /// Runs job(rank) on every thread and waits until all are done. `failed` is called when a rank is
  /// done. Once it returns true, the other ranks get `grace`. Ranks that are not done then are
  /// returned, and no further job may run until unfinished() is empty.
  std::vector<size_t> run(Job job, const std::function<bool()> &failed,
                          std::chrono::milliseconds grace);

  /// The ranks that are still inside the last job.
  std::vector<size_t> unfinished() const;

private:
  struct State;
  std::shared_ptr<State> state_;
};

} // namespace pipec
