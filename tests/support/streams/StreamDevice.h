// A device for tests: CPU memory, and streams that only its fences put into an order.
#pragma once

#include "runtime/Device.h"
#include "tests/support/streams/StreamMonitor.h"

#include <map>

namespace pipec::test {

/// What a StreamDevice does wrong, to show that it is found.
enum class StreamFault {
  None,
  NoWait,         // waitFor does nothing
  EarlyFence,     // mark gives the fence of two marks ago: work is sent before its mark
  WrongFence,     // mark gives a fence of another stream
  WrongStream,    // every second time, enter leaves the default stream current
  NoHold,         // a value from another stream of the device may be freed early
  NoPeerCopy,     // a value of another device is used as it is
  PeerCopyEarly,  // a copy from another device does not wait for the current stream
  NoPeerHold,     // the source of a copy to another device may be freed early
  ForgottenFirst, // only the first wait of each stream is left out
  InputElsewhere, // inputs are copied on the default stream
  NoFinish,       // finish does not wait
};

/// A device "test:N". Every device of this number shares memory and default stream. Work is done at
/// once, as on the CPU, so results do not depend on the order; StreamMonitor says whether they
/// would on a GPU, and finish() throws its first problem.
class StreamDevice : public Device {
public:
  explicit StreamDevice(size_t number);
  ~StreamDevice() override { StreamMonitor::get().forgetMapped(); } // it may be unmapped now

  std::string name() const override { return "test:" + std::to_string(number_); }
  bool hasStreams() const override { return true; }
  size_t addStream() override;
  std::unique_ptr<Scope> enter(size_t stream) override;
  Fence mark() override;
  void waitFor(const Fence &fence) override;
  int64_t nsBetween(const Fence &from, const Fence &to) override { return to.hostNs - from.hostNs; }
  void finish() override;
  c10::IValue bring(c10::IValue value, const Device &from) override;
  c10::IValue bringInput(c10::IValue value) override;
  int64_t peakMemoryBytes() override;

  /// Devices made from now on have this fault.
  static StreamFault fault;

private:
  size_t current() const { return StreamMonitor::get().currentStream(number_); }
  at::Tensor copyFrom(const StreamDevice &source, const at::Tensor &tensor);

  size_t number_;
  StreamFault fault_;
  std::vector<size_t> streams_;
  std::map<std::pair<size_t, size_t>, size_t> sending_; // a stream here, a source: its stream
  std::vector<bool> hasWaited_;
  std::vector<std::shared_ptr<Clock>> marked_; // of EarlyFence
  size_t entered_ = 0;                         // of WrongStream
  std::shared_ptr<const Clock> told_; // what the thread knows that last waited for this device
};

/// Makes makeDevice() know the names "test", "test:N" and "test:any", which is test:0 and test:1 in
/// turn. `cpuToo`: "cpu" is the same as "test:any".
void openStreamDevices(bool cpuToo);

} // namespace pipec::test
