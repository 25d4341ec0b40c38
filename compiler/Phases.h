// How long the steps of a compile take.
#pragma once

#include "compiler/Compiler.h"
#include "ir/TorchFileTime.h"

#include <chrono>

namespace pipec {

/// One after the other, on one thread. The report must outlive it.
class Phases {
public:
  explicit Phases(CompileReport &report)
      : report_(&report), start_(std::chrono::steady_clock::now()), torchStart_(torchFileNs()) {}

  /// What ran since the last end was `name`.
  void end(const std::string &name) {
    const auto now = std::chrono::steady_clock::now();
    report_->phases.push_back(
        {name, std::chrono::duration_cast<std::chrono::nanoseconds>(now - start_).count()});
    start_ = now;
    report_->torchFileNs = torchFileNs().wall - torchStart_.wall;
    report_->torchFileCpuNs = torchFileNs().cpu - torchStart_.cpu;
  }

private:
  CompileReport *report_;
  std::chrono::steady_clock::time_point start_;
  WallAndCpu torchStart_;
};

} // namespace pipec
