// Devices: where stages run. One interface covers the CPU and accelerators, so no other code
// distinguishes them.
#pragma once

#include "ir/support/Error.h"
#include "llvm/ADT/STLExtras.h"

#include <ATen/core/ivalue.h>
#include <c10/core/Device.h>

#include <memory>
#include <string>

namespace pipec {

/// A point in a device's order of work: an event on an accelerator, a time on the CPU.
struct Fence {
  int64_t hostNs = 0;
  std::shared_ptr<void> event; // null on the CPU
};

/// A device of one rank. Work is issued to streams, one per stage; on the CPU a stream is the
/// calling thread. Threads: addStream is called before the rank's thread starts, everything else on
/// the rank's thread. waitFor and bring accept fences and values of other devices' threads.
class Device {
public:
  /// Its destructor ends the use of a stream.
  struct Scope {
    virtual ~Scope() = default;
  };

  virtual ~Device() = default;

  /// "cpu", "cuda:0".
  virtual std::string name() const { return where_.str(); }
  c10::Device where() const { return where_; }
  /// Whether work is done later, in the order of streams. False: when its call returns.
  virtual bool hasStreams() const { return !where_.is_cpu(); }

  /// A new stream; returns its number.
  virtual size_t addStream() = 0;
  /// Makes the stream current for the calling thread while the scope lives. May return null
  /// (nothing to undo).
  virtual std::unique_ptr<Scope> enter(size_t stream) = 0;

  /// A fence after all work issued to the current stream so far.
  virtual Fence mark() = 0;
  /// Makes later work of the current stream wait for `fence`; the host does not wait.
  virtual void waitFor(const Fence &fence) = 0;
  /// Time between two fences of this device. Call after finish().
  virtual int64_t nsBetween(const Fence &from, const Fence &to) = 0;
  /// The host waits for all work of this device's streams, and of the calling thread's current
  /// stream.
  virtual void finish() = 0;

  /// Makes a value of another device usable on the current stream. Tensors on that device are
  /// copied to this one, in the order of the current stream, and keep strides and requires_grad.
  /// Other tensors stay where they are. Between equal devices nothing is copied, and the memory
  /// will not be used for other tensors before the current stream is done with it.
  virtual c10::IValue bring(c10::IValue value, const Device &from) = 0;
  /// Moves all tensors of a user's value to this device.
  virtual c10::IValue bringInput(c10::IValue value) = 0;

  /// The most bytes in use so far: on the CPU by the process, elsewhere in the device's allocator.
  virtual int64_t peakMemoryBytes() = 0;

protected:
  explicit Device(c10::Device where) : where_(where) {}

private:
  c10::Device where_;
};

/// A copy that `copy` makes of a dense tensor, with the strides and requires_grad of `tensor` and
/// outside any graph.
at::Tensor copyWithStrides(const at::Tensor &tensor,
                           llvm::function_ref<at::Tensor(const at::Tensor &dense)> copy);

/// Opens devices with names that the product does not have. A test build sets it before main(); the
/// product leaves it empty. Returns null for all other names.
using OpenTestDevice = std::shared_ptr<Device> (*)(const std::string &name);
inline constinit OpenTestDevice testDevices = nullptr;

/// Accepts "cpu", "cuda" (the current GPU, else 0) or "cuda:N". Errors: Usage naming the existing
/// devices if there is no such device.
llvm::Expected<std::shared_ptr<Device>> makeDevice(const std::string &name);

/// One device name per rank, from the names that the user gave: no name means "cpu" for all, one
/// name is for all ranks. Errors: Usage for another number, with the option that makes one rank of
/// each of `stages`.
llvm::Expected<std::vector<std::string>> deviceNames(const std::vector<std::string> &given,
                                                     size_t ranks, size_t stages);

} // namespace pipec
