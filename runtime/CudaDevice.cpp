// Uses LibTorch's device-neutral interfaces (streams, events, device guards), so that it compiles
// without a CUDA toolkit. The GPU library is loaded only when a GPU is requested: a process that
// stays on the CPU pays neither its start-up time nor its memory.
//
// Who waits for whom, with two stages on one rank and a third on another:
//   stage 0 stream:            F0 -[1]-> F0' ...
//   stage 1 stream:                [2] F1 -[3]-> send
//   arrivals of stage 2:                     take [4] -[5]->
//   stage 2 stream:                                        [6] F2
// [1] mark() after a stage; [2] waitFor() in the consumer's stream; [3] mark() by the transport at
// a send, in the producer's stream; [4] waitFor() and bring() by the transport at the take, in the
// stream of what arrives at the consumer from this direction; [5] mark() after it; [6] waitFor() in
// the consumer's stream. So a copy between GPUs runs beside F2 of an earlier micro-batch. The host
// waits in finish(), and once in a step of a training for the flag that says whether all gradients
// are finite.
#include "runtime/CudaDevice.h"

#include "ir/TorchError.h"
#include "ir/support/Try.h"
#include "ir/values/MapTensors.h"

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <dlfcn.h>
#include <map>
#include <optional>
#include <vector>

namespace pipec {

namespace {

constexpr c10::DeviceType kCuda = c10::DeviceType::CUDA;

bool loadCudaLibrary(std::string &why) {
  if (c10::impl::hasDeviceGuardImpl(kCuda))
    return true;
  if (!dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL)) {
    const char *text = dlerror();
    why = text ? text : "unknown reason";
    return false;
  }
  return c10::impl::hasDeviceGuardImpl(kCuda);
}

class CudaDevice : public Device {
public:
  explicit CudaDevice(int index)
      : Device(c10::Device(kCuda, static_cast<c10::DeviceIndex>(index))), guard_(kCuda) {
    at::globalContext().lazyInitDevice(kCuda);
  }

  size_t addStream() override {
    streams_.push_back(guard_.getStreamFromGlobalPool(where()));
    return streams_.size() - 1;
  }

  std::unique_ptr<Scope> enter(size_t stream) override {
    return std::make_unique<StreamScope>(streams_.at(stream));
  }

  Fence mark() override {
    // BACKEND_DEFAULT: events with times, for the statistics.
    auto event = std::make_shared<c10::Event>(kCuda, c10::EventFlag::BACKEND_DEFAULT);
    event->record(current());
    return {0, std::move(event)};
  }

  void waitFor(const Fence &fence) override {
    if (fence.event)
      static_cast<c10::Event *>(fence.event.get())->block(current());
  }

  int64_t nsBetween(const Fence &from, const Fence &to) override {
    if (!from.event || !to.event)
      return 0;
    auto *start = static_cast<c10::Event *>(from.event.get());
    auto *end = static_cast<c10::Event *>(to.event.get());
    return static_cast<int64_t>(start->elapsedTime(*end) * 1e6);
  }

  void finish() override {
    for (const c10::Stream &stream : streams_)
      guard_.synchronizeStream(stream);
    guard_.synchronizeStream(current());
  }

  c10::IValue bring(c10::IValue value, const Device &from) override {
    if (from.where() == where()) {
      // The allocator must not hand the memory out again before this stream is done with it.
      forEachTensor(value, [&](const at::Tensor &tensor) {
        if (tensor.defined() && tensor.device() == where())
          guard_.recordDataPtrOnStream(tensor.storage().data_ptr(), current());
      });
      return value;
    }
    std::optional<c10::StreamGuard> sending;
    if (!from.where().is_cpu())
      sending.emplace(readyToSend(from.where()));
    return mapTensors(value, [&](const at::Tensor &tensor) {
      if (!tensor.defined() || tensor.device() != from.where())
        return tensor;
      at::Tensor copy = copyWithStrides(tensor, [&](const at::Tensor &dense) {
        return dense.to(where(), /*non_blocking=*/true);
      });
      if (!from.where().is_cpu())
        keepUntilCopied(tensor);
      return copy;
    });
  }

  c10::IValue bringInput(c10::IValue value) override {
    return mapTensors(value, [&](const at::Tensor &tensor) {
      return tensor.defined() ? tensor.to(where(), /*non_blocking=*/true) : tensor;
    });
  }

  int64_t peakMemoryBytes() override {
    constexpr size_t kAggregate = 0;
    auto stats = c10::getDeviceAllocator(kCuda)->getDeviceStats(where().index());
    return stats.allocated_bytes[kAggregate].peak;
  }

private:
  struct StreamScope : Scope {
    explicit StreamScope(const c10::Stream &stream) : guard(stream) {}
    c10::StreamGuard guard;
  };

  c10::Stream current() const { return guard_.getStream(where()); }

  /// A copy between two GPUs runs on this thread's current stream of the source, ordered after and
  /// before this device's current stream. Each stream of this device has one of its own on the
  /// source, so that copies to different stages do not wait for each other. It is behind all that
  /// the current stream waits for.
  c10::Stream readyToSend(c10::Device source) {
    const std::pair key(current().id(), source.index());
    auto known = sending_.find(key);
    if (known == sending_.end())
      known = sending_.emplace(key, guard_.getStreamFromGlobalPool(source)).first;
    c10::Event event(kCuda);
    event.record(current());
    event.block(known->second);
    return known->second;
  }

  /// The source's allocator must know the stream of the copy.
  void keepUntilCopied(const at::Tensor &source) {
    guard_.recordDataPtrOnStream(source.storage().data_ptr(), guard_.getStream(source.device()));
  }

  c10::impl::VirtualGuardImpl guard_;
  std::vector<c10::Stream> streams_;
  std::map<std::pair<c10::StreamId, c10::DeviceIndex>, c10::Stream> sending_;
};

/// LibTorch looks for its GPU library once, on the first request (at::manual_seed is one), and
/// keeps the answer "none" forever.
llvm::Error checkLoadedInTime() {
  llvm::Error error =
      guardTorchVoid(ExitCode::Usage, "", [] { at::detail::getCUDAHooks().versionCUDART(); });
  if (!error)
    return llvm::Error::success();
  llvm::consumeError(std::move(error));
  return makeError(
      ExitCode::Usage, "LibTorch's GPU library was loaded after LibTorch had looked for it",
      "link the program with libtorch_cuda, or open the GPU before other uses of LibTorch");
}

} // namespace

llvm::Expected<int> cudaDeviceCount() {
  std::string why;
  if (!loadCudaLibrary(why))
    return makeError(ExitCode::Usage, "found no GPU library of LibTorch: " + why,
                     "use --device cpu, or a LibTorch with CUDA");
  int count = c10::impl::VirtualGuardImpl(kCuda).deviceCount();
  if (count == 0)
    return makeError(ExitCode::Usage, "found no GPU, only cpu", "use --device cpu");
  TRY(checkLoadedInTime());
  return count;
}

std::shared_ptr<Device> makeCudaDevice(int index) { return std::make_shared<CudaDevice>(index); }

} // namespace pipec
