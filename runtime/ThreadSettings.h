// The settings of a thread that runs model code. They decide bits: stages and the unsplit model
// must run under the same ones.
#pragma once

#include "ir/InferenceSettings.h"

namespace pipec {

/// While it lives, this thread runs TorchScript without the graph optimiser (which changes numbers
/// from the second run on), without grad mode, backward on its own thread, and with `threads`
/// intra-op threads. The destructor restores what was there before.
class ThreadSettings {
public:
  explicit ThreadSettings(int threads);
  ~ThreadSettings();
  ThreadSettings(const ThreadSettings &) = delete;
  ThreadSettings &operator=(const ThreadSettings &) = delete;

private:
  InferenceSettings inference_;
  int threads_;
  bool multithreading_;
};

/// at::set_num_threads on one thread is also the default of threads started later: keeps the
/// caller's number over the start of workers.
class KeepThreadCount {
public:
  KeepThreadCount();
  ~KeepThreadCount();
  KeepThreadCount(const KeepThreadCount &) = delete;
  KeepThreadCount &operator=(const KeepThreadCount &) = delete;

private:
  int threads_;
};

} // namespace pipec
