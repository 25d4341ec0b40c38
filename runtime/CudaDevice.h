// CUDA GPUs as devices of ranks.
#pragma once

#include "runtime/Device.h"

namespace pipec {

/// Loads LibTorch's GPU library if this process does not have it yet, and returns the number of
/// usable GPUs. Errors: Usage with the reason if there is none.
llvm::Expected<int> cudaDeviceCount();

/// `index` must be below cudaDeviceCount().
std::shared_ptr<Device> makeCudaDevice(int index);

} // namespace pipec
