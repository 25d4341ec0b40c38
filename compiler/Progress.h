// What a compile does right now, for those who wait for it. No LibTorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace pipec {

/// The compile has begun a step, or is further in it.
struct ProgressEvent {
  std::string step;    // "running the source"
  std::string unit;    // of its parts: "runs"; empty: it has none
  size_t done = 0;     // of its parts
  size_t total = 0;    // 0: not known
  int64_t leftNs = -1; // until the step ends, by what earlier parts took; -1: not known
};

/// Called by any thread, one at a time; it returns soon and does not throw.
using ProgressCallback = std::function<void(const ProgressEvent &)>;

} // namespace pipec
