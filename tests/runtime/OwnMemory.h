// Devices for tests that have memory of their own, on the CPU.
#pragma once

#include "ir/values/MapTensors.h"
#include "runtime/Device.h"

#include <atomic>
#include <utility>

namespace pipec {

/// What comes from another device is copied. Fences order nothing: all work is done at once.
class OwnMemory : public Device {
public:
  OwnMemory() : Device(c10::Device(c10::DeviceType::CPU)) {}
  bool hasStreams() const override { return true; }
  size_t addStream() override { return streams_++; }
  std::unique_ptr<Scope> enter(size_t) override { return nullptr; }
  Fence mark() override { return {.hostNs = ++marks_, .event = {}}; }
  void waitFor(const Fence &) override {}
  int64_t nsBetween(const Fence &from, const Fence &to) override { return to.hostNs - from.hostNs; }
  void finish() override {}
  c10::IValue bring(c10::IValue value, const Device &from) override {
    if (&from == this)
      return value;
    return mapTensors(value, [&](const at::Tensor &tensor) {
      if (!tensor.defined())
        return tensor;
      arrives(tensor, from);
      return copyWithStrides(tensor, [](const at::Tensor &dense) { return dense.clone(); });
    });
  }
  c10::IValue bringInput(c10::IValue value) override { return value; }
  int64_t peakMemoryBytes() override { return 0; }

protected:
  virtual void arrives(const at::Tensor & /*tensor*/, const Device & /*from*/) {}

private:
  size_t streams_ = 0;
  std::atomic<int64_t> marks_ = 0;
};

/// While it lives, `open` makes the devices of tests, one for each rank.
class TestDevices {
public:
  explicit TestDevices(OpenTestDevice open) : before_(std::exchange(testDevices, open)) {}
  ~TestDevices() { testDevices = before_; }
  TestDevices(const TestDevices &) = delete;
  TestDevices &operator=(const TestDevices &) = delete;

private:
  OpenTestDevice before_;
};

} // namespace pipec
