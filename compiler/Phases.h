// The duration of the steps of a compile, and the current step.
#pragma once

#include "compiler/CompileReport.h"
#include "compiler/Progress.h"

#include <chrono>

namespace pipec {

/// Phases one after the other, on one thread. The report must outlive it.
class Phases {
public:
  explicit Phases(CompileReport &report, ProgressCallback progress = {});

  /// The step that runs from now on, in words for a terminal: "writing the stages".
  void begin(const std::string &step, int64_t leftNs = -1) const;
  /// Ends the phase `name`, which began at the previous end.
  void end(const std::string &name);
  /// Adds the times of passes, which are parts of these phases.
  void add(const std::vector<PassTime> &passes);

  const ProgressCallback &progress() const { return progress_; }

private:
  CompileReport *report_;
  ProgressCallback progress_;
  std::chrono::steady_clock::time_point start_;
  int64_t torchStart_; // ns
};

} // namespace pipec
