// The core that each rank works on.
#pragma once

#include <atomic>
#include <cstddef>
#include <vector>

namespace pipec {

/// Keeps ranks on different cores. Linux may wake two threads on one core while another is idle,
/// and takes some milliseconds to balance them, which is more than many steps:
///
///   core 0:  rank 0  rank 1  rank 0  rank 1        core 0:  rank 0  rank 0
///   core 1:  (idle)                           ->   core 1:  rank 1  rank 1
///
/// A rank that finds another one noted on its core moves itself to one that has none. Where it may
/// run stays as it was: Linux can move it again. With fewer cores than ranks nothing is done.
/// Threads: each rank's thread calls with its own number.
class RankCores {
public:
  explicit RankCores(size_t ranks);

  /// Notes the core of a rank that begins, or that goes on after it took a value, and moves it if
  /// another one is noted there.
  void settle(size_t rank);
  /// The rank's work is done; its core is free for others.
  void leave(size_t rank);

private:
  static constexpr int kNone = -1;
  void moveAway(size_t rank);

  std::vector<std::atomic<int>> cores_; // by rank; empty: nothing to do
};

} // namespace pipec
