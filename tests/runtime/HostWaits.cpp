// LibTorch reports every wait of the host to an object that is there for Python's CUDA sanitizer
// (c10/core/impl/GPUTrace.h): before it waits for a stream, an event or a device, and in every
// blocking copy. Here it is an interpreter that can do nothing else.
#include "tests/runtime/HostWaits.h"

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/impl/GPUTrace.h>

#include <atomic>
#include <mutex>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace pipec {

namespace {

std::atomic<bool> notesHostCalls = false;
std::mutex hostCallsMutex;
std::vector<HostCall> hostCallsSoFar; // with the mutex

void noteHostCall(HostCall::Kind kind) {
  if (!notesHostCalls)
    return;
  std::lock_guard<std::mutex> lock(hostCallsMutex);
  hostCallsSoFar.push_back({std::this_thread::get_id(), kind});
}

[[noreturn]] void isNoPython() { throw std::logic_error("no tensor here is Python's"); }

/// The three synchronizations do something. Tensors of Python would need the rest.
struct NotingTrace final : c10::impl::PyInterpreterVTable {
  using Impl = c10::TensorImpl;
  using Handle = c10::OperatorHandle;
  using Type = c10::DeviceType;

  void trace_gpu_device_synchronization(Type) const override { noteHostCall(HostCall::Kind::Wait); }
  void trace_gpu_stream_synchronization(Type, uintptr_t) const override {
    noteHostCall(HostCall::Kind::Wait);
  }
  void trace_gpu_event_synchronization(Type, uintptr_t) const override {
    noteHostCall(HostCall::Kind::Wait);
  }

  void trace_gpu_event_creation(Type, uintptr_t) const override {}
  void trace_gpu_event_deletion(Type, uintptr_t) const override {}
  void trace_gpu_event_record(Type, uintptr_t, uintptr_t) const override {}
  void trace_gpu_event_wait(Type, uintptr_t, uintptr_t) const override {}
  void trace_gpu_memory_allocation(Type, uintptr_t) const override {}
  void trace_gpu_memory_deallocation(Type, uintptr_t) const override {}
  void trace_gpu_stream_creation(Type, uintptr_t) const override {}

  std::string name() const override { return "pipec's tests"; }
  void incref(PyObject *) const override { isNoPython(); }
  void decref(PyObject *) const override { isNoPython(); }
  bool try_incref(const c10::impl::PyObjectSlot &) const override { isNoPython(); }
  size_t refcnt(PyObject *) const override { isNoPython(); }
  c10::intrusive_ptr<Impl> detach(const Impl *) const override { isNoPython(); }
  void dispatch(const Handle &, torch::jit::Stack *) const override { isNoPython(); }
  void reportErrorCallback(PyObject *, c10::DispatchKey) const override { isNoPython(); }
  void python_op_registration_trampoline(const Handle &, c10::DispatchKey, c10::DispatchKeySet,
                                         torch::jit::Stack *, bool, bool) const override {
    isNoPython();
  }
  void throw_abstract_impl_not_imported_error(std::string, const char *,
                                              const char *) const override {
    isNoPython();
  }
  void python_dispatcher(const Handle &, c10::DispatchKeySet, torch::jit::Stack *) const override {
    isNoPython();
  }
  bool is_contiguous(const Impl *, at::MemoryFormat) const override { isNoPython(); }
  c10::SymBool sym_is_contiguous(const Impl *, at::MemoryFormat) const override { isNoPython(); }
  bool is_strides_like(const Impl *, at::MemoryFormat) const override { isNoPython(); }
  bool is_non_overlapping_and_dense(const Impl *) const override { isNoPython(); }
  c10::Device device(const Impl *) const override { isNoPython(); }
  int64_t dim(const Impl *) const override { isNoPython(); }
  c10::IntArrayRef strides(const Impl *) const override { isNoPython(); }
  c10::IntArrayRef sizes(const Impl *) const override { isNoPython(); }
  c10::SymIntArrayRef sym_sizes(const Impl *) const override { isNoPython(); }
  c10::Layout layout(const Impl *) const override { isNoPython(); }
  int64_t numel(const Impl *) const override { isNoPython(); }
  c10::SymInt sym_numel(const Impl *) const override { isNoPython(); }
  c10::SymIntArrayRef sym_strides(const Impl *) const override { isNoPython(); }
  c10::SymInt sym_storage_offset(const Impl *) const override { isNoPython(); }
  void reset_backward_hooks(const Impl *) const override { isNoPython(); }
};

bool isPlainMemory(const at::Tensor &tensor) { return tensor.is_cpu() && !tensor.is_pinned(); }

std::unique_ptr<at::ObserverContext> noteHostOperator(const at::RecordFunction &function) {
  const std::string_view name = function.name();
  if (name == "aten::mm" || name == "aten::addmm" || name == "aten::bmm")
    noteHostCall(HostCall::Kind::Product);
  if (name != "aten::copy_")
    return nullptr;
  const at::Tensor to = function.inputs()[0].toTensor(), from = function.inputs()[1].toTensor();
  if ((to.is_cuda() && isPlainMemory(from)) || (from.is_cuda() && isPlainMemory(to)))
    noteHostCall(HostCall::Kind::Copy);
  return nullptr;
}

/// LibTorch takes one tracer per process, and keeps it.
void startTrace() {
  static const NotingTrace table;
  static const c10::impl::PyInterpreter interpreter(&table);
  c10::impl::GPUTrace::set_trace(&interpreter);
}

} // namespace

std::vector<HostCall> hostCalls(llvm::function_ref<void()> body) {
  startTrace();
  const at::CallbackHandle handle =
      at::addGlobalCallback(at::RecordFunctionCallback(&noteHostOperator)
                                .needsInputs(true)
                                .scopes({at::RecordScope::FUNCTION}));
  notesHostCalls = true;
  body();
  notesHostCalls = false;
  at::removeCallback(handle);
  std::lock_guard<std::mutex> lock(hostCallsMutex);
  return std::exchange(hostCallsSoFar, {});
}

} // namespace pipec
