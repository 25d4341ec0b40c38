// The output of a training while it runs: a line per step and, on a terminal, how long it will go
// on.
#pragma once

#include "runtime/TrainingOptions.h"
#include "tools/cli/ProgressLine.h"

#include <chrono>

namespace pipec {

/// A step as it was run.
struct StepLine {
  int64_t step = 0, of = 0; // from 1
  TrainedStep result;
  int64_t ns = 0, samples = 0;
  int64_t peakMemory = 0; // bytes, so far
  bool updates = false;   // there is an optimizer

  double samplesPerSecond() const {
    return ns > 0 ? static_cast<double>(samples) * 1e9 / static_cast<double>(ns) : 0;
  }
};

/// One line for people.
void printLine(const StepLine &line);
/// One line of JSON.
void printJsonLine(const StepLine &line);

/// Shows how far the training is, and for how long it will go on if steps take what they took.
class TrainingProgress {
public:
  /// first: steps of earlier runs; count: all of them.
  TrainingProgress(int64_t first, int64_t count) : first_(first), count_(count) {}

  /// After so many steps, with those of earlier runs.
  void note(int64_t done) const;

private:
  int64_t first_, count_;
  ProgressLine line_;
  ProgressCallback callback_ = line_.callback();
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

} // namespace pipec
