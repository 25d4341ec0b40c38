#include "compiler/Phases.h"

#include "ir/torchfile/TorchFileTime.h"

namespace pipec {

Phases::Phases(CompileReport &report, ProgressCallback progress)
    : report_(&report), progress_(std::move(progress)), start_(std::chrono::steady_clock::now()),
      torchStart_(torchFileNs().wall) {}

void Phases::begin(const std::string &step, int64_t leftNs) const {
  if (progress_)
    progress_({step, "", 0, 0, leftNs});
}

void Phases::end(const std::string &name) {
  const auto now = std::chrono::steady_clock::now();
  report_->phases.push_back(
      {name, std::chrono::duration_cast<std::chrono::nanoseconds>(now - start_).count()});
  start_ = now;
  report_->torchFileNs = torchFileNs().wall - torchStart_;
}

void Phases::add(const std::vector<PassTime> &passes) { addTimes(report_->passes, passes); }

} // namespace pipec
