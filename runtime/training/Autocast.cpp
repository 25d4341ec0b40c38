#include "runtime/training/Autocast.h"

#include <ATen/autocast_mode.h>

namespace pipec {

namespace autocast = at::autocast;

/// The types of devices that autocast is switched for: each type has its own operators and dtype.
static constexpr std::array<at::DeviceType, 2> kTypes = {at::kCPU, at::kCUDA};

AutocastScope::AutocastScope(Precision precision) : isOn_(precision == Precision::Bf16) {
  if (!isOn_)
    return;
  hadCache_ = autocast::is_autocast_cache_enabled();
  autocast::set_autocast_cache_enabled(false);
  for (size_t i = 0; i < kTypes.size(); ++i) {
    before_[i] = {autocast::is_autocast_enabled(kTypes[i]),
                  static_cast<int>(autocast::get_autocast_dtype(kTypes[i]))};
    autocast::set_autocast_dtype(kTypes[i], at::kBFloat16);
    autocast::set_autocast_enabled(kTypes[i], true);
  }
}

AutocastScope::~AutocastScope() {
  if (!isOn_)
    return;
  for (size_t i = 0; i < kTypes.size(); ++i) {
    autocast::set_autocast_enabled(kTypes[i], before_[i].enabled);
    autocast::set_autocast_dtype(kTypes[i], static_cast<at::ScalarType>(before_[i].dtype));
  }
  autocast::set_autocast_cache_enabled(hadCache_);
}

} // namespace pipec
