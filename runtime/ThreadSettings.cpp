#include "runtime/ThreadSettings.h"

#include <ATen/Parallel.h>
#include <c10/core/AutogradState.h>

namespace pipec {

// InferenceSettings does not use InferenceMode: tensors of that mode differ from those that a stage
// file saves, and so would requires_grad, which affects bits.
ThreadSettings::ThreadSettings(int threads)
    : threads_(at::get_num_threads()),
      multithreading_(c10::AutogradState::get_tls_state().get_multithreading_enabled()) {
  at::set_num_threads(threads);
  c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
}

ThreadSettings::~ThreadSettings() {
  c10::AutogradState::get_tls_state().set_multithreading_enabled(multithreading_);
  at::set_num_threads(threads_);
}

KeepThreadCount::KeepThreadCount() : threads_(at::get_num_threads()) {}
KeepThreadCount::~KeepThreadCount() { at::set_num_threads(threads_); }

} // namespace pipec
