// Runs of stages whose random numbers must not change those of the calling program.
#pragma once

#include <ATen/CPUGeneratorImpl.h>

#include <mutex>

namespace pipec {

/// While alive, the default generator of the CPU draws from a fixed seed. Afterwards it continues
/// as if nothing had been drawn.
class SameDraws {
public:
  SameDraws() : generator_(at::detail::getDefaultCPUGenerator()) {
    std::lock_guard<std::mutex> lock(generator_.mutex());
    before_ = generator_.get_state();
    generator_.set_current_seed(0);
  }
  ~SameDraws() {
    std::lock_guard<std::mutex> lock(generator_.mutex());
    generator_.set_state(before_);
  }
  SameDraws(const SameDraws &) = delete;
  SameDraws &operator=(const SameDraws &) = delete;

private:
  at::Generator generator_;
  at::Tensor before_;
};

} // namespace pipec
