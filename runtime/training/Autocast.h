// Mixed precision: operators that gain from it compute in bfloat16, weights stay float32.
#pragma once

#include "runtime/TrainingOptions.h"

#include <array>

namespace pipec {

/// While alive, on this thread: LibTorch's autocast on CPU and GPU, for Precision::Bf16; else
/// nothing changes. For forwards; backwards follow the dtypes of their forwards. Weights are cast
/// at each use: LibTorch's cache would make one node of the graph from several uses, and keep it
/// from one micro-batch to the next.
class AutocastScope {
public:
  explicit AutocastScope(Precision precision);
  ~AutocastScope();
  AutocastScope(const AutocastScope &) = delete;
  AutocastScope &operator=(const AutocastScope &) = delete;

private:
  /// Of one type of device.
  struct Before {
    bool enabled = false;
    int dtype = 0; // c10::ScalarType
  };
  bool isOn_, hadCache_ = false;
  std::array<Before, 2> before_;
};

} // namespace pipec
