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
  static void spend(uint64_t actions);
  static double seconds();
};

} // namespace pipec
