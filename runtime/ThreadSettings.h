// The settings of a thread that runs model code. They affect bits: stages and the unsplit model
// must run with the same ones.
#pragma once

#include "ir/InferenceSettings.h"

namespace pipec {

/// While alive, this thread runs TorchScript without the graph optimiser (which changes numbers
/// from the second run on), without grad mode, with the backward on its own thread, and with
/// `threads` intra-op threads. The destructor restores the previous settings.
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

/// at::set_num_threads on one thread also sets the default of threads started later. This restores
/// the caller's number after workers have started.
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
