#include "ir/InferenceSettings.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/jit/python/update_graph_executor_opt.h>

namespace pipec {

InferenceSettings::InferenceSettings(int intraOpThreads)
    : grad_(at::GradMode::is_enabled()), optimize_(torch::jit::getGraphExecutorOptimize()),
      threads_(at::get_num_threads()) {
  if (intraOpThreads > 0)
    at::set_num_threads(intraOpThreads);
  at::GradMode::set_enabled(false);
  torch::jit::setGraphExecutorOptimize(false);
}

InferenceSettings::~InferenceSettings() {
  at::GradMode::set_enabled(grad_);
  torch::jit::setGraphExecutorOptimize(optimize_);
  if (at::get_num_threads() != threads_)
    at::set_num_threads(threads_);
}

} // namespace pipec
