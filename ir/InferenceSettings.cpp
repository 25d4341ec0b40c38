#include "ir/InferenceSettings.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sqrt.h>
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

/// MKL's vector functions (sqrt, exp, tanh, ...) choose their kernels by a static number for the
/// processor, which the first call of any of them writes twice: mkl_vml_serv_cpu_detect stores what
/// it detects, and then the number of its tables for that. A thread that reads in between takes a
/// kernel of another accuracy, whose result is off by 3e-4. So one thread makes the first call.
void callVectorMathOnce() {
  static const bool called = at::sqrt(at::ones({1})).defined();
  static_cast<void>(called);
}

} // namespace

void sendWarningsTo(TakeWarning take) {
  takeWarning = take;
  c10::WarningUtils::set_warning_handler(&warningTaker);
}

InferenceSettings::InferenceSettings(int intraOpThreads)
    : grad_(at::GradMode::is_enabled()), optimize_(torch::jit::getGraphExecutorOptimize()),
      threads_(at::get_num_threads()), warnings_(c10::WarningUtils::get_warning_handler()) {
  callVectorMathOnce();
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
