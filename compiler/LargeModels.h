// The size of a model from which on a compile makes fewer runs.
#pragma once

#include <cstdint>

namespace pipec {

/// Bytes of weights. One run of such a model takes seconds.
inline constexpr int64_t kLargeModelBytes = int64_t(256) << 20;

} // namespace pipec
