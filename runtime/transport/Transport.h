// Transport: moves a value from one rank to another. One interface for threads, processes and
// hosts.
#pragma once

#include "ir/support/Error.h"

#include <ATen/core/ivalue.h>

namespace pipec {

/// Carries the values of channels over lanes. A lane is an ordered pair of ranks. Its messages
/// arrive in the order in which they were sent, and at most its window of them wait to be taken.
/// Only the place in that order identifies a message: its number (Step::message) and micro-batch
/// serve to detect a wrong program.
///
/// Threads: the sending rank's thread calls send, the receiving rank's thread calls post and take,
/// any thread may call abort. Ownership: a sent value belongs to the receiver; its tensors keep
/// their strides and bits. Devices: a value is sent in the order of work of the sender's current
/// stream, and may be used on the receiver's current stream. No call waits for a device.
class Transport {
public:
  virtual ~Transport() = default;

  /// Announces a later take of this message, for transports that need a buffer first. At most the
  /// lane's window ahead.
  virtual llvm::Error post(size_t lane, size_t message, int64_t microBatch) = 0;

  /// Sends `value`; waits while the lane's window is full. Errors: the one given to abort.
  virtual llvm::Error send(size_t lane, size_t message, int64_t microBatch, c10::IValue value) = 0;

  /// Waits for the next message of the lane. Errors: the one given to abort; Internal if the
  /// message is not of that number and micro-batch (it stays in the lane).
  virtual llvm::Expected<c10::IValue> take(size_t lane, size_t message, int64_t microBatch) = 0;

  /// For ranks that run whatever is ready: whether the lane has a message that was not taken. Any
  /// thread.
  virtual bool holds(size_t lane) const = 0;
  /// How often a message was sent to the rank, or one from it was taken.
  virtual uint64_t changes(size_t rank) const = 0;
  /// Waits while changes() is `seen`. Errors: the one given to abort.
  virtual llvm::Error waitForChange(size_t rank, uint64_t seen) = 0;

  /// Ends all waiting calls and all later calls with `error`. The first abort wins.
  virtual void abort(const ErrorText &error) = 0;

  /// Drops the messages in the lanes and ends an abort. No other call may be running.
  virtual void reset() = 0;
};

} // namespace pipec
