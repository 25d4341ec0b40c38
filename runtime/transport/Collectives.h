// Computations of several ranks together in a training. One interface for threads, processes and
// hosts.
#pragma once

#include "ir/support/Error.h"

#include <ATen/core/ivalue.h>

#include <vector>

namespace pipec {

/// Groups of ranks, as Program::groups has them. All members of a group make the same calls in the
/// same order.
///
/// Threads: each member calls from its own thread; any thread may call abort.
class Collectives {
public:
  virtual ~Collectives() = default;

  /// Gives `value` to all members and returns those of all members, in the order of the group's
  /// ranks. Waits for the slowest member. Tensors are handed over by reference: their memory must
  /// not change afterwards. Devices: a value is given in the order of work of the caller's current
  /// stream, and may be used on the current streams of all. Errors: the one given to abort.
  virtual llvm::Expected<std::vector<c10::IValue>> gather(size_t group, size_t rank,
                                                          c10::IValue value) = 0;

  /// Ends all waiting calls and all later calls with `error`. The first abort wins.
  virtual void abort(const ErrorText &error) = 0;

  /// Ends an abort and forgets unfinished calls. No other call may be running.
  virtual void reset() = 0;
};

} // namespace pipec
