// The current step of a compile, for callers that show progress. No LibTorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace pipec {

/// The compile has begun a step, or has advanced in it.
struct ProgressEvent {
  std::string step;    // "running the source"
  std::string unit;    // of the step's parts: "runs"; empty: it has no parts
  size_t done = 0;     // parts
  size_t total = 0;    // 0: not known
  int64_t leftNs = -1; // until the step ends, estimated from earlier parts; -1: not known
};

/// Called on any thread, one call at a time. It must return soon and must not throw.
using ProgressCallback = std::function<void(const ProgressEvent &)>;

} // namespace pipec
