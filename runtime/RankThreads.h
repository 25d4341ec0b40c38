// One thread per rank, started once and kept for all steps.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

namespace pipec {

/// Threads that run the same job with their rank, step after step. Owned and called by one thread.
class RankThreads {
public:
  /// Starts the threads; each calls `around`, which must call its argument once and return after
  /// it: what it sets up before the call holds for all jobs. Returns when every thread is inside
  /// that call.
  RankThreads(size_t ranks, std::function<void(const std::function<void()> &serve)> around);
  /// Ends the threads. One that hangs inside a job is left behind after the grace time: whatever
  /// its job uses must be owned by the job.
  ~RankThreads();
  RankThreads(const RankThreads &) = delete;
  RankThreads &operator=(const RankThreads &) = delete;

  /// Runs job(rank) on every thread and waits until all are done. Once `failed` returns true (it is
  /// asked when a rank is done) the others get `grace`; the ranks that are not done then are
  /// returned, and no further job may be run before unfinished() is empty.
  std::vector<size_t> run(std::function<void(size_t rank)> job, const std::function<bool()> &failed,
                          std::chrono::milliseconds grace);

  /// The ranks that are still inside the last job.
  std::vector<size_t> unfinished() const;

private:
  struct State;
  std::shared_ptr<State> state_;
};

} // namespace pipec
