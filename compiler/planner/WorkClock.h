// A clock that counts the work of searches: the same search stops at the same place on every
// machine.
#pragma once

#include <cstdint>

namespace pipec {

/// Seconds that the calling thread's searches have worked, as a usual machine would need for them.
/// A search runs on one thread. Nested searches count for those around them, too.
class WorkClock {
public:
  /// Actions of schedules that were made, timed, lowered or simulated.
  static void spend(uint64_t actions) { spent() += actions; }
  static double seconds() { return static_cast<double>(spent()) * kSecondsPerAction; }

private:
  static constexpr double kSecondsPerAction = 1e-7; // about, on one core
  static uint64_t &spent() {
    thread_local uint64_t actions = 0;
    return actions;
  }
};

} // namespace pipec
