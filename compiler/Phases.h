// The duration of the steps of a compile, and the current step.
#pragma once

#include "compiler/Compiler.h"
#include "ir/torchfile/TorchFileTime.h"

#include <chrono>

namespace pipec {

/// Phases one after the other, on one thread. The report must outlive it.
class Phases {
public:
  explicit Phases(CompileReport &report, ProgressCallback progress = {})
      : report_(&report), progress_(std::move(progress)), start_(std::chrono::steady_clock::now()),
        torchStart_(torchFileNs()) {}

  /// The step that runs from now on, in words for a terminal: "writing the stages".
  void begin(const std::string &step, int64_t leftNs = -1) const {
    if (progress_)
      progress_({step, "", 0, 0, leftNs});
  }

  /// Ends the phase `name`, which began at the previous end.
  void end(const std::string &name) {
    const auto now = std::chrono::steady_clock::now();
    report_->phases.push_back(
        {name, std::chrono::duration_cast<std::chrono::nanoseconds>(now - start_).count()});
    start_ = now;
    report_->torchFileNs = torchFileNs().wall - torchStart_.wall;
    report_->torchFileCpuNs = torchFileNs().cpu - torchStart_.cpu;
  }

  const ProgressCallback &progress() const { return progress_; }

private:
  CompileReport *report_;
  ProgressCallback progress_;
  std::chrono::steady_clock::time_point start_;
  WallAndCpu torchStart_;
};

} // namespace pipec
