// Devices: where stages run. One interface for the CPU and for accelerators, so that nothing else
// asks which one it is.
#pragma once

#include "ir/support/Error.h"

#include <ATen/core/ivalue.h>
#include <c10/core/Device.h>

#include <memory>
#include <string>

namespace pipec {

/// A point in the order of work of one device: an event on an accelerator, a time on the CPU.
struct Fence {
  int64_t hostNs = 0;
  std::shared_ptr<void> event; // null on the CPU
};

struct DeviceMemory {
  int64_t currentBytes = 0;
  int64_t peakBytes = 0;
};

/// A device of one rank. Work is issued to streams, one per stage; on the CPU a stream is the
/// calling thread. Threads: addStream before the rank's thread starts, everything else from the
/// rank's thread, except that waitFor and bring accept fences and values of other devices' threads.
class Device {
public:
  /// Ends the use of a stream when destroyed.
  struct Scope {
    virtual ~Scope() = default;
  };

  virtual ~Device() = default;

  /// "cpu", "cuda:0".
  std::string name() const { return where_.str(); }
  c10::Device where() const { return where_; }

  /// A new stream; returns its number.
  virtual size_t addStream() = 0;
  /// Makes the stream current for the calling thread while the scope lives. May be null (nothing to
  /// undo).
  virtual std::unique_ptr<Scope> enter(size_t stream) = 0;

  /// Everything issued to the current stream so far.
  virtual Fence mark() = 0;
  /// Makes later work of the current stream wait for `fence`; the host does not wait.
  virtual void waitFor(const Fence &fence) = 0;
  /// Time between two fences of this device. Call after finish().
  virtual int64_t nsBetween(const Fence &from, const Fence &to) = 0;
  /// The host waits for all work of this device's streams.
  virtual void finish() = 0;

  /// A value that another device made, for use on the current stream: tensors on that device are
  /// copied here (in the order of the current stream), tensors elsewhere stay where they are. On
  /// one and the same device nothing is copied.
  virtual c10::IValue bring(c10::IValue value, const Device &from) = 0;
  /// A value of the user: all its tensors come to this device.
  virtual c10::IValue bringInput(c10::IValue value) = 0;

  /// Of the process on the CPU, of the device's allocator elsewhere.
  virtual DeviceMemory memory() = 0;

protected:
  explicit Device(c10::Device where) : where_(where) {}

private:
  c10::Device where_;
};

/// "cpu", "cuda" (the current GPU, else 0) or "cuda:N". Errors: Usage naming what was found when
/// there is no such device.
llvm::Expected<std::shared_ptr<Device>> makeDevice(const std::string &name);

/// One device name per rank from names as the user gave them: none is "cpu" for all, one is for
/// all. Errors: Usage when the number fits neither, with what makes one rank of each of `stages`.
llvm::Expected<std::vector<std::string>> deviceNames(const std::vector<std::string> &given,
                                                     size_t ranks, size_t stages);

/// Why no GPU can be used, or empty when one can. Loads LibTorch's GPU library on the first call.
std::string whyNoCuda();

} // namespace pipec
