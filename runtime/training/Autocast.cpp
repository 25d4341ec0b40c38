#include "runtime/training/Autocast.h"

#include <ATen/autocast_mode.h>

namespace pipec {

namespace autocast = at::autocast;

AutocastScope::AutocastScope(Precision precision)
    : isOn_(precision == Precision::Bf16), wasEnabled_(autocast::is_autocast_enabled(at::kCPU)),
      hadCache_(autocast::is_autocast_cache_enabled()),
      dtype_(static_cast<int>(autocast::get_autocast_dtype(at::kCPU))) {
  if (!isOn_)
    return;
  autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
  autocast::set_autocast_cache_enabled(false);
  autocast::set_autocast_enabled(at::kCPU, true);
}

AutocastScope::~AutocastScope() {
  if (!isOn_)
    return;
  autocast::set_autocast_enabled(at::kCPU, wasEnabled_);
  autocast::set_autocast_cache_enabled(hadCache_);
  autocast::set_autocast_dtype(at::kCPU, static_cast<at::ScalarType>(dtype_));
}

} // namespace pipec
