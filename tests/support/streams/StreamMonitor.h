// Finds work on streams that is in no order, without a GPU: what PyTorch's CUDA sanitizer does for
// Python programs on a GPU.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace pipec::test {

/// Per stream, how much of its work is over: the vector clock of a stream, a fence or a thread.
using Clock = std::vector<uint64_t>;

/// Watches every operator of the process while a StreamDevice exists. It knows the memory that each
/// reads and writes from the operator's schema, the stream from the scope of the thread, and the
/// order of streams from fences and waits. Memory belongs to the device on whose stream it was
/// allocated or first written; memory of the host is not watched. Problems, each naming two
/// operators:
///   - an access to memory that is not ordered after its last write
///   - a write that is not ordered after all reads since the last write
///   - freed memory that its stream may use again while another stream still works on it
///   - an operator on one device that uses memory of another
///
/// Threads: any. What a thread knows (after finish) is part of the order; locks between threads are
/// not, because a GPU does not see them.
class StreamMonitor {
public:
  static StreamMonitor &get();

  /// A device with its default stream; the same number gives the same device.
  void addDevice(size_t device);
  /// Returns the number of a new stream, unique in the process.
  size_t addStream(size_t device);
  size_t defaultStream(size_t device);
  /// Forgets which memory not made on a stream (weights of a mapped file) belongs to which device.
  void forgetMapped();

  /// The current stream of this thread. leave() restores the one before.
  void enter(size_t device, size_t stream);
  void leave();
  /// Of this thread, for a device: its scope's stream, or the device's default stream.
  size_t currentStream(size_t device);

  std::shared_ptr<Clock> mark(size_t stream);
  void waitFor(size_t stream, const Clock &clock);
  /// The calling thread waits for these streams.
  void finish(const std::vector<size_t> &streams);
  /// What the calling thread knows, also later on, and a thread that is told it.
  std::shared_ptr<const Clock> known();
  void tell(const Clock &clock);

  /// The allocator will not give the memory to others before this stream is done with it.
  void hold(const at::Tensor &tensor, size_t stream);
  /// Work that no operator shows: a copy by the device's own engine.
  void access(const at::Tensor &tensor, bool writes, size_t stream, const char *what);

  /// A copy from another device arrives on a stream of `device`.
  void arrives(size_t device, size_t stream);
  /// How many came to a stream, other than a default one, on which an operator had run: they wait
  /// for it.
  int64_t arrivalsBehindOperators();

  /// While alive, operators of this thread are not watched.
  struct Unwatched {
    Unwatched();
    ~Unwatched();
  };

  /// The first problem since the last call; empty: none.
  std::string takeProblem();
  /// How often an operator on a thread in a scope made the host wait for a stream (`item`,
  /// `nonzero`, ...), and the last such operator.
  int64_t hostWaits();
  std::string lastHostWait();

private:
  StreamMonitor();
};

} // namespace pipec::test
