#include "ir/autograd/TrainingSettings.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/AutogradState.h>

namespace pipec {

TrainingSettings::TrainingSettings(int intraOpThreads)
    : settings_(intraOpThreads),
      backwardThreads_(c10::AutogradState::get_tls_state().get_multithreading_enabled()) {
  at::GradMode::set_enabled(true);
  c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
}

TrainingSettings::~TrainingSettings() {
  c10::AutogradState::get_tls_state().set_multithreading_enabled(backwardThreads_);
}

} // namespace pipec
