// From which size on a compile saves runs of the model.
#pragma once

#include <cstdint>

namespace pipec {

/// Bytes of weights. One run of such a model takes seconds.
inline constexpr int64_t kLargeModelBytes = int64_t(256) << 20;

} // namespace pipec
