#include "ir/InferenceSettings.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>
#include <torch/csrc/jit/python/update_graph_executor_opt.h>

#include <atomic>
#include <string_view>

namespace pipec {

namespace {

std::atomic<TakeWarning> takeWarning = nullptr;

class WarningTaker final : public c10::WarningHandler {
public:
  // LibTorch names a line of the archive or of its own sources, which the author does not know.
  void process(const c10::Warning &warning) override {
    if (!isOnNestedTensors(warning))
      takeWarning.load()(warning.msg());
  }

private:
  /// LibTorch's transformer layers make nested tensors from padding masks. That these are a
  /// prototype is nothing that a user of the layers can act on.
  static bool isOnNestedTensors(const c10::Warning &warning) {
    return std::string_view(warning.source_location().file).ends_with("NestedTensorImpl.cpp");
  }
};

WarningTaker warningTaker; // LibTorch's handlers are one per thread

} // namespace

void sendWarningsTo(TakeWarning take) {
  takeWarning = take;
  c10::WarningUtils::set_warning_handler(&warningTaker);
}

InferenceSettings::InferenceSettings(int intraOpThreads)
    : grad_(at::GradMode::is_enabled()), optimize_(torch::jit::getGraphExecutorOptimize()),
      threads_(at::get_num_threads()), warnings_(c10::WarningUtils::get_warning_handler()) {
  if (takeWarning)
    c10::WarningUtils::set_warning_handler(&warningTaker);
  if (intraOpThreads > 0)
    at::set_num_threads(intraOpThreads);
  at::GradMode::set_enabled(false);
  torch::jit::setGraphExecutorOptimize(false);
}

InferenceSettings::~InferenceSettings() {
  c10::WarningUtils::set_warning_handler(warnings_);
  at::GradMode::set_enabled(grad_);
  torch::jit::setGraphExecutorOptimize(optimize_);
  if (at::get_num_threads() != threads_)
    at::set_num_threads(threads_);
}

} // namespace pipec
