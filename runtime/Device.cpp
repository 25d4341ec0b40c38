#include "runtime/Device.h"

#include "ir/TorchError.h"
#include "ir/support/PeakMemory.h"
#include "ir/support/Try.h"
#include "ir/support/Words.h"
#include "ir/values/MapTensors.h"
#include "llvm/ADT/StringRef.h"
#include "runtime/CudaDevice.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/GradMode.h>

#include <chrono>

namespace pipec {

namespace {

bool hasTensorOffCpu(const c10::IValue &value) {
  bool found = false;
  forEachTensor(value, [&](const at::Tensor &tensor) {
    found = found || (tensor.defined() && !tensor.device().is_cpu());
  });
  return found;
}

/// The CPU: values are handed over unchanged, and work is done when its call returns.
class CpuDevice : public Device {
public:
  CpuDevice() : Device(c10::Device(c10::DeviceType::CPU)) {}

  size_t addStream() override { return 0; }
  std::unique_ptr<Scope> enter(size_t) override { return nullptr; }
  Fence mark() override {
    return {std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1), {}};
  }
  void waitFor(const Fence &fence) override {
    // The only place where the host waits: the CPU has no stream that could wait for a GPU.
    if (fence.event)
      static_cast<c10::Event *>(fence.event.get())->synchronize();
  }
  int64_t nsBetween(const Fence &from, const Fence &to) override { return to.hostNs - from.hostNs; }
  void finish() override {}

  c10::IValue bring(c10::IValue value, const Device &from) override {
    return from.where().is_cpu() ? std::move(value) : bringInput(std::move(value));
  }
  c10::IValue bringInput(c10::IValue value) override {
    if (!hasTensorOffCpu(value))
      return value;
    return mapTensors(value, [](const at::Tensor &tensor) {
      if (!tensor.defined() || tensor.is_cpu())
        return tensor;
      return copyWithStrides(tensor, [](const at::Tensor &dense) { return dense.to(at::kCPU); });
    });
  }
  int64_t peakMemoryBytes() override { return pipec::peakMemoryBytes(); }
};

} // namespace

at::Tensor copyWithStrides(const at::Tensor &tensor,
                           llvm::function_ref<at::Tensor(const at::Tensor &dense)> copy) {
  c10::AutoGradMode noGrad(false);
  if (tensor.layout() != at::kStrided || tensor.is_quantized() || !tensor.has_storage() ||
      tensor.numel() == 0 || tensor.is_non_overlapping_and_dense())
    return copy(tensor).set_requires_grad(tensor.requires_grad());
  // Broadcast or cut out of a larger one: the memory from its first to its last element.
  int64_t last = 0;
  for (int64_t d = 0; d < tensor.dim(); ++d)
    last += (tensor.size(d) - 1) * tensor.stride(d);
  const at::Tensor span = tensor.as_strided({last + 1}, {1}, tensor.storage_offset());
  return copy(span)
      .as_strided(tensor.sizes(), tensor.strides())
      .set_requires_grad(tensor.requires_grad());
}

llvm::Expected<std::shared_ptr<Device>> makeDevice(const std::string &name) {
  if (testDevices)
    if (std::shared_ptr<Device> device = testDevices(name))
      return device;
  if (name == "cpu")
    return std::make_shared<CpuDevice>();
  llvm::StringRef text = name;
  if (!text.consume_front("cuda") || (!text.empty() && !text.consume_front(":")))
    return makeError(ExitCode::Usage, "expected cpu, cuda or cuda:N, got " + name);
  int index = 0;
  if (name != "cuda" && (text.empty() || text.getAsInteger(10, index) || index < 0))
    return makeError(ExitCode::Usage, "expected cpu, cuda or cuda:N, got " + name);
  llvm::Expected<int> count = cudaDeviceCount();
  if (!count)
    return withContext(count.takeError(), "device " + name);
  if (index >= *count)
    return failf(ExitCode::Usage, "device {}: found {} GPU{}, cuda:0 to cuda:{}", name, *count,
                 *count == 1 ? "" : "s", *count - 1);
  std::shared_ptr<Device> device;
  TRY(guardTorchVoid(ExitCode::Other, "opening device " + name,
                     [&] { device = makeCudaDevice(index); }));
  return device;
}

llvm::Expected<std::vector<std::string>> deviceNames(const std::vector<std::string> &given,
                                                     size_t ranks, size_t stages) {
  if (given.size() == ranks)
    return given;
  if (given.size() <= 1)
    return std::vector<std::string>(ranks, given.empty() ? "cpu" : given.front());
  std::string message = "devices: expected one";
  if (ranks > 1)
    message += fmt::format(", or one for each of {} ranks", ranks);
  message += fmt::format(", got {}", given.size());
  if (stages <= ranks)
    return makeError(ExitCode::Usage, message);
  return makeError(
      ExitCode::Usage,
      fmt::format("{}; the artifact has {} stages on {}", message, stages, counted(ranks, "rank")),
      fmt::format("compile with --ranks {} to have one rank per stage", stages));
}

} // namespace pipec
