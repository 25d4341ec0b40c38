// Counts the arithmetic of the operators that run on this thread.
#pragma once

#include <cstdint>

namespace pipec {

/// While alive, adds up floating point operations (a multiply-add is two) of matrix products,
/// convolutions, attention and recurrent layers run by this thread, and what takes a core as long
/// as so many of them: maximum pooling, tanh, gelu. Outermost operator of a family
/// counts, so nested calls are not counted twice. One at a time per thread.
class FlopCounter {
public:
  FlopCounter();
  ~FlopCounter();
  FlopCounter(const FlopCounter &) = delete;
  FlopCounter &operator=(const FlopCounter &) = delete;

  int64_t total() const;

private:
  uint64_t handle_;
};

} // namespace pipec
