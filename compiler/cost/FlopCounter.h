// Counts the arithmetic of the operators that run on this thread.
#pragma once

#include <cstdint>

namespace pipec {

/// What operators compute. `flops`: what is to be done, on any device. `coreFlops`: as many as the
/// usual core (kCoreFlopsPerSecond) does in the time that LibTorch's kernels take on one thread,
/// bytes that every operator moves left out.
struct Arithmetic {
  int64_t flops = 0, coreFlops = 0;

  Arithmetic &operator+=(const Arithmetic &other) {
    flops += other.flops;
    coreFlops += other.coreFlops;
    return *this;
  }
};

/// While alive, adds up the floating point operations (a multiply-add is two) of matrix products,
/// convolutions, attention, recurrent layers, maximum pooling, tanh and gelu run by this thread,
/// and of their backwards. The backward of a product is one product for each gradient that is
/// wanted, the same size as the forward's; attention's makes its scores once more and four products
/// of them (Dao et al., "FlashAttention", 2022, algorithm 4: five for the forward's two). Outermost
/// operator of a family counts, so nested calls are not counted twice. One at a time per thread.
class FlopCounter {
public:
  FlopCounter();
  ~FlopCounter();
  FlopCounter(const FlopCounter &) = delete;
  FlopCounter &operator=(const FlopCounter &) = delete;

  Arithmetic total() const;

private:
  uint64_t handle_;
};

} // namespace pipec
