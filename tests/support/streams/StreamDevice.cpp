#include "tests/support/streams/StreamDevice.h"

#include "ir/support/PeakMemory.h"
#include "ir/values/MapTensors.h"
#include "llvm/ADT/StringRef.h"
#include "runtime/Resources.h"

#include <c10/core/GradMode.h>

#include <atomic>
#include <chrono>

namespace pipec::test {

StreamFault StreamDevice::fault = StreamFault::None;

namespace {

struct StreamScope : Device::Scope {
  StreamScope(size_t device, size_t stream) { StreamMonitor::get().enter(device, stream); }
  ~StreamScope() override { StreamMonitor::get().leave(); }
};

/// A copy that no operator shows, outside any graph.
at::Tensor copyUnwatched(const at::Tensor &tensor) {
  StreamMonitor::Unwatched unwatched;
  c10::AutoGradMode noGrad(false);
  return copyWithStrides(tensor, [](const at::Tensor &dense) { return dense.clone(); });
}

} // namespace

StreamDevice::StreamDevice(size_t number)
    : Device(c10::Device(c10::DeviceType::CPU)), number_(number), fault_(fault) {
  StreamMonitor::get().addDevice(number);
  StreamMonitor::get().forgetMapped();
}

size_t StreamDevice::addStream() {
  streams_.push_back(StreamMonitor::get().addStream(number_));
  hasWaited_.push_back(false);
  return streams_.size() - 1;
}

std::unique_ptr<Device::Scope> StreamDevice::enter(size_t stream) {
  if (told_)
    StreamMonitor::get().tell(*told_);
  const size_t entered = fault_ == StreamFault::WrongStream && entered_++ % 2 == 1
                             ? StreamMonitor::get().defaultStream(number_)
                             : streams_.at(stream);
  return std::make_unique<StreamScope>(number_, entered);
}

Fence StreamDevice::mark() {
  const int64_t now =
      std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  const size_t stream =
      fault_ == StreamFault::WrongFence ? StreamMonitor::get().defaultStream(number_) : current();
  std::shared_ptr<Clock> fence = StreamMonitor::get().mark(stream);
  if (fault_ == StreamFault::EarlyFence) {
    marked_.push_back(fence);
    fence = marked_.size() > 2 ? marked_[marked_.size() - 3] : std::make_shared<Clock>();
  }
  return {now, std::move(fence)};
}

void StreamDevice::waitFor(const Fence &fence) {
  if (!fence.event || fault_ == StreamFault::NoWait)
    return;
  const size_t stream = current();
  if (fault_ == StreamFault::ForgottenFirst)
    for (size_t i = 0; i < streams_.size(); ++i)
      if (streams_[i] == stream && !hasWaited_[i]) {
        hasWaited_[i] = true;
        return;
      }
  StreamMonitor::get().waitFor(stream, *static_cast<const Clock *>(fence.event.get()));
}

void StreamDevice::finish() {
  StreamMonitor &monitor = StreamMonitor::get();
  if (fault_ != StreamFault::NoFinish) {
    std::vector<size_t> all = streams_;
    all.push_back(current());
    monitor.finish(all);
  }
  told_ = monitor.known();
  const std::string problem = monitor.takeProblem();
  TORCH_CHECK(problem.empty(), "order of streams: ", problem);
}

/// As LibTorch copies between GPUs: on a stream of the source's device, after and before the
/// current stream of this one. Each of these has its own, as in CudaDevice.
at::Tensor StreamDevice::copyFrom(const StreamDevice &source, const at::Tensor &tensor) {
  StreamMonitor &monitor = StreamMonitor::get();
  const size_t here = current();
  auto known = sending_.find({here, source.number_});
  if (known == sending_.end())
    known =
        sending_.emplace(std::pair(here, source.number_), monitor.addStream(source.number_)).first;
  const size_t engine = known->second;
  if (fault_ != StreamFault::PeerCopyEarly)
    monitor.waitFor(engine, *monitor.mark(here));
  monitor.access(tensor, /*writes=*/false, engine, "a copy to another device");
  if (fault_ != StreamFault::NoPeerHold)
    monitor.hold(tensor, engine);
  at::Tensor copy = copyUnwatched(tensor);
  monitor.waitFor(here, *monitor.mark(engine));
  monitor.access(copy, /*writes=*/true, here, "a copy from another device");
  monitor.arrives(number_, here);
  return copy;
}

c10::IValue StreamDevice::bring(c10::IValue value, const Device &from) {
  const auto *source = dynamic_cast<const StreamDevice *>(&from);
  TORCH_CHECK(source, "expected test devices only");
  if (source->number_ == number_) {
    if (fault_ != StreamFault::NoHold)
      forEachTensor(value, [&](const at::Tensor &tensor) {
        if (tensor.defined())
          StreamMonitor::get().hold(tensor, current());
      });
    return value;
  }
  if (fault_ == StreamFault::NoPeerCopy)
    return value;
  return mapTensors(value, [&](const at::Tensor &tensor) {
    return tensor.defined() ? copyFrom(*source, tensor) : tensor;
  });
}

c10::IValue StreamDevice::bringInput(c10::IValue value) {
  StreamMonitor &monitor = StreamMonitor::get();
  const size_t stream =
      fault_ == StreamFault::InputElsewhere ? monitor.defaultStream(number_) : current();
  return mapTensors(value, [&](const at::Tensor &tensor) {
    if (!tensor.defined())
      return tensor;
    at::Tensor copy = copyUnwatched(tensor);
    monitor.access(copy, /*writes=*/true, stream, "the copy of an input");
    return copy;
  });
}

int64_t StreamDevice::peakMemoryBytes() { return pipec::peakMemoryBytes(); }

namespace {

std::atomic<size_t> inTurn = 0;
bool takesCpu = false;

std::shared_ptr<Device> open(const std::string &name) {
  llvm::StringRef text = name;
  if ((name == "cpu" && takesCpu) || name == "test:any")
    return std::make_shared<StreamDevice>(inTurn++ % 2);
  size_t number = 0;
  if (!text.consume_front("test"))
    return nullptr;
  if (!text.empty() && (!text.consume_front(":") || text.getAsInteger(10, number)))
    return nullptr;
  return std::make_shared<StreamDevice>(number);
}

} // namespace

void openStreamDevices(bool cpuToo) {
  takesCpu = cpuToo;
  testDevices = &open;
}

} // namespace pipec::test
