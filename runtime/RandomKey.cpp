// Implementation: boxed kernels on a dispatch key that LibTorch reserves for tests are called first
// for every operator of the table, while a scope includes that key on this thread. All other
// operators fall through. The kernel counts, inserts a generator where the schema has an empty one,
// and calls the next kernel.
#include "runtime/RandomKey.h"

#include "ir/NodeInfo.h"
#include "ir/support/Check.h"
#include "ir/support/SplitMix64.h"
#include "llvm/Support/SaveAndRestore.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/_cudnn_init_dropout_state.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <optional>

namespace pipec {

namespace {

constexpr c10::DispatchKey kKey = c10::DispatchKey::TESTING_ONLY_GenericMode;

/// The scope of this thread.
struct Active {
  RandomKey key;
  const std::vector<int64_t> *ordinals;
  uint64_t taken = 0;   // operators so far
  uint64_t ordinal = 0; // of the running operator
  uint64_t draws = 0;   // inside the running operator
  int depth = 0;        // nesting depth of operators of the table
  bool alone = false;   // whether this thread holds the lock of a device's draws
  c10::impl::IncludeDispatchKeyGuard include{kKey};

  uint64_t nextOrdinal() {
    uint64_t n = taken++;
    if (ordinals->empty())
      return n;
    if (n < ordinals->size())
      return static_cast<uint64_t>((*ordinals)[n]);
    return static_cast<uint64_t>(ordinals->back()) + (n - ordinals->size() + 1);
  }
  uint64_t nextSeed() {
    uint64_t hash = 0;
    for (uint64_t part : {key.seed, key.step, key.microBatch, ordinal, draws++})
      hash = splitMix64(hash ^ splitMix64(part));
    return hash;
  }
};
thread_local std::optional<Active> active;

/// LibTorch seeds its engine from 32 bits, so two of some ten thousand draws would collide. This
/// fills the whole state instead.
at::Generator cpuGenerator(uint64_t seed) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  at::mt19937_data_pod state;
  state.seed_ = seed;
  state.left_ = 1;
  state.seeded_ = true;
  state.next_ = 0;
  for (size_t i = 0; i < state.state_.size(); i += 2) {
    uint64_t word = splitMix64(seed + i);
    state.state_[i] = static_cast<uint32_t>(word);
    state.state_[i + 1] = static_cast<uint32_t>(word >> 32);
  }
  at::mt19937 engine;
  engine.set_data(state);
  generator.get<at::CPUGeneratorImpl>()->set_engine(engine);
  return generator;
}

/// Of the first tensor, else of a device argument, else the CPU.
c10::Device deviceOf(const std::vector<c10::Argument> &arguments, const c10::IValue *values) {
  c10::Device device(c10::DeviceType::CPU);
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (values[i].isTensor() && values[i].toTensor().defined())
      return values[i].toTensor().device();
    if (values[i].isDevice())
      device = values[i].toDevice();
  }
  return device;
}

at::Generator generatorFor(c10::Device device, uint64_t seed) {
  if (device.is_cpu())
    return cpuGenerator(seed);
  at::Generator generator = at::globalContext()
                                .getAcceleratorHooksInterface(device.type())
                                .getNewGenerator(device.index());
  generator.set_current_seed(seed);
  return generator;
}

/// GPU kernels without a generator argument use the device's generator: this seeds it. The caller
/// excludes other threads.
void seedDefaultGenerator(c10::Device device, uint64_t seed) {
  at::Generator generator = at::globalContext().defaultGenerator(device);
  std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_current_seed(seed);
  generator.set_offset(0);
}

/// One random operator of a GPU at a time between its seed and its launch: operators without a
/// generator argument share the device's generator. Its own mutex is taken by the operator.
std::mutex &drawsOf(c10::Device device) {
  static std::array<std::mutex, 64> perDevice;
  return perDevice[static_cast<size_t>(std::max<int>(device.index(), 0)) % perDevice.size()];
}

std::optional<size_t> indexOf(const std::vector<c10::Argument> &arguments, llvm::StringRef name) {
  for (size_t i = 0; i < arguments.size(); ++i)
    if (arguments[i].name() == name)
      return i;
  return std::nullopt;
}

/// cuDNN's dropout between the layers of a recurrent network draws from a state that LibTorch keeps
/// per device and that every call moves on. This gives the call a state of its own.
void keyCudnnDropout(const std::vector<c10::Argument> &arguments, c10::IValue *values,
                     c10::Device device, uint64_t seed) {
  double probability = values[*indexOf(arguments, "dropout")].toDouble();
  values[*indexOf(arguments, "dropout_state")] =
      at::_cudnn_init_dropout_state(probability, /*train=*/true, static_cast<int64_t>(seed),
                                    at::TensorOptions().dtype(at::kByte).device(device));
}

/// Seeds what the operator draws from.
void key(const c10::OperatorHandle &op, c10::IValue *values, c10::Device device) {
  const std::vector<c10::Argument> &arguments = op.schema().arguments();
  if (std::optional<size_t> generator = indexOf(arguments, "generator")) {
    if (values[*generator].isNone())
      values[*generator] = generatorFor(device, active->nextSeed());
    return;
  }
  if (device.is_cpu() || device.is_meta())
    return;
  if (op.schema().name() == "aten::_cudnn_rnn") {
    active->draws = 0; // LibTorch draws a seed for its own state on the first call only
    return keyCudnnDropout(arguments, values, device, active->nextSeed());
  }
  seedDefaultGenerator(device, active->nextSeed());
}

void countAndKey(const c10::OperatorHandle &op, c10::DispatchKeySet keys, c10::Stack *stack) {
  PIPEC_ASSERT(active, "the key is included by a scope only");
  const std::vector<c10::Argument> &arguments = op.schema().arguments();
  c10::IValue *values = stack->data() + stack->size() - arguments.size();
  // An operator that is switched off behaves like any other, and takes no ordinal.
  Draws draws = drawsWith(op.schema().name(), [&](llvm::StringRef name) -> Argument {
    const std::optional<size_t> index = indexOf(arguments, name);
    return index ? argumentOf(values[*index]) : Argument{};
  });
  llvm::SaveAndRestore<int> depth(active->depth, active->depth + 1);
  c10::Device device = deviceOf(arguments, values);
  // An operator that draws nothing leaves the device's generator alone: another thread may have
  // seeded it for the operator that it is about to launch.
  std::unique_lock<std::mutex> lock(drawsOf(device), std::defer_lock);
  if (draws != Draws::Never) {
    if (active->depth == 1) {
      active->ordinal = active->nextOrdinal();
      active->draws = 0;
    }
    if (!device.is_cpu() && !active->alone)
      lock.lock();
    key(op, values, device);
  }
  llvm::SaveAndRestore<bool> alone(active->alone, active->alone || lock.owns_lock());
  op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kKey), stack);
}

void registerKernels() {
  // Never destroyed: LibTorch's dispatcher may be gone before this process's statics are.
  static auto *const others =
      new torch::Library(torch::Library::IMPL, "_", kKey, __FILE__, __LINE__);
  others->fallback(torch::CppFunction::makeFallthrough());
  static auto *const table =
      new torch::Library(torch::Library::IMPL, "aten", kKey, __FILE__, __LINE__);
  c10::Dispatcher &dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName &name : dispatcher.getAllOpNames()) {
    if (!isRandomOp(name.name) || !dispatcher.findSchema(name))
      continue;
    std::string full =
        name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
    table->impl(full.c_str(), torch::CppFunction::makeFromBoxedFunction<&countAndKey>());
  }
}

} // namespace

RandomScope::RandomScope(const RandomKey &key, const std::vector<int64_t> &ordinals) {
  static std::once_flag once;
  std::call_once(once, registerKernels);
  PIPEC_ASSERT(!active, "scopes do not nest");
  active.emplace();
  active->key = key;
  active->ordinals = &ordinals;
}

RandomScope::~RandomScope() { active.reset(); }

uint64_t RandomScope::taken() const { return active->taken; }

} // namespace pipec
