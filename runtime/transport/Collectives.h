// Computations of several ranks together in a training. One interface for threads, processes and
// hosts.
#pragma once

#include "ir/support/Error.h"
#include "llvm/ADT/ArrayRef.h"

#include <ATen/core/ivalue.h>

#include <vector>

namespace pipec {

/// The list of each member of a group, in the order of the group's ranks.
using GatheredValues = std::vector<std::vector<c10::IValue>>;

/// Groups of ranks, as Program::groups has them. All members of a group make the same calls in the
/// same order.
///
/// Threads: each member calls from its own thread; any thread may call abort.
class Collectives {
public:
  virtual ~Collectives() = default;

  /// Gives `values` to all members and sets `all` to the lists of all members; the memory of its
  /// lists is used again. Waits for the slowest member. Tensors are handed over by reference: their
  /// memory must not change afterwards. Devices: values are given in the order of work of the
  /// caller's current stream, and may be used on the current streams of all. Errors: the one given
  /// to abort.
  virtual llvm::Error gather(size_t group, size_t rank, llvm::ArrayRef<c10::IValue> values,
                             GatheredValues &all) = 0;

  /// Ends all waiting calls and all later calls with `error`. The first abort wins.
  virtual void abort(const ErrorText &error) = 0;

  /// Ends an abort and forgets unfinished calls. No other call may be running.
  virtual void reset() = 0;
};

} // namespace pipec
