// Counts the arithmetic of the operators that run on this thread.
#pragma once

#include <cstdint>

namespace pipec {

/// The work of operators. `flops`: the operations themselves, on any device. `coreFlops`: the
/// operations of a usual core (kCoreFlopsPerSecond) in the time that LibTorch's kernels take on one
/// thread, without the bytes that every operator moves.
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
/// and of their backwards. The backward of a product has one product of the forward's size per
/// requested gradient. The backward of attention computes its scores again and has four products of
/// them (Dao et al., "FlashAttention", 2022, algorithm 4: five for the forward's two). Only the
/// outermost operator of a family counts, so nested calls are not counted twice. One at a time per
/// thread.
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
