// Waiting for another thread without giving up the core.
#pragma once

#include "runtime/Resources.h"

#include <chrono>
#include <thread>

namespace pipec {

/// A thread that sleeps needs about 50 us to run again, longer than many stages take. So a waiting
/// thread first checks its condition in a loop. If every thread has a core, it does so for as long
/// as a sleep costs, else only for a moment, because the awaited thread may need this core.
class Spin {
public:
  /// threads: how many run at the same time and may wait for each other.
  explicit Spin(size_t threads)
      : most_(std::chrono::microseconds(threads <= static_cast<size_t>(usableCores()) ? 100 : 5)) {}

  /// Returns when `waits()` is false, or when the time is over. `waits` reads atomic values.
  template <typename Condition> void whileTrue(Condition &&waits) const {
    if (!waits())
      return;
    const auto end = std::chrono::steady_clock::now() + most_;
    do {
      for (int i = 0; i < 16; ++i) {
        if (!waits())
          return;
        pause();
      }
    } while (std::chrono::steady_clock::now() < end);
  }

private:
  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#else
    std::this_thread::yield();
#endif
  }
  std::chrono::nanoseconds most_;
};

} // namespace pipec
