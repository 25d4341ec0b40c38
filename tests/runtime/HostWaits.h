// What threads did that concerns a GPU, in order: for tests that say where the host waits for it.
#pragma once

#include "llvm/ADT/STLExtras.h"

#include <thread>
#include <vector>

namespace pipec {

struct HostCall {
  enum class Kind {
    /// For a stream, an event or a device, or for the end of a copy, as LibTorch's functions
    /// report it. Not seen: what a library below LibTorch (cuBLAS, cuDNN) waits for.
    Wait,
    /// A copy between a GPU and memory of the CPU that is not pinned. CUDA may wait for the stream
    /// even if the copy was asked not to.
    Copy,
    /// A product of matrices was launched.
    Product,
  };
  std::thread::id by;
  Kind kind;
};

/// What all threads do while `body` runs. Needs a GPU, and no Python in the process. One at a time.
std::vector<HostCall> hostCalls(llvm::function_ref<void()> body);

} // namespace pipec
