// Operators are seen by a global RecordFunction callback: it covers every thread and every call
// through the dispatcher, those of backwards and of TorchScript included, and needs no dispatch
// key. Memory is seen by an allocator around LibTorch's own for the CPU.
#include "tests/support/streams/StreamMonitor.h"

#include "ir/values/MapTensors.h"

#include <fmt/format.h>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/COW.h>

#include <map>
#include <optional>
#include <set>
#include <unordered_map>

namespace pipec::test {

namespace {

constexpr size_t kHost = ~size_t(0); // device of memory that is not watched

/// Some work on a stream.
struct Access {
  size_t stream = 0;
  uint64_t tick = 0;
  std::string what;
};

struct Block {
  size_t device = kHost;
  size_t stream = kHost;          // whose pool it comes from
  std::optional<Access> write;    // the last one
  std::map<size_t, Access> reads; // since then, the last one of each stream
  std::set<size_t> held;          // streams that the allocator waits for
  bool isMapped = false;          // no allocator gave it, and it may be mapped anew unseen
  bool isFresh = true;            // no operator has written it
};

struct Stream {
  size_t device = 0;
  std::string name;
  Clock clock;
  std::vector<Access> uses; // of freed memory in its pool, by other streams
  bool computes = false;    // an operator ran on it
};

/// What the schema of an operator says.
struct Operator {
  enum class Use { None, Read, Write };
  std::string name;
  std::vector<Use> arguments;
  size_t results = 0;
  bool fills = true; // its results have content
  bool hostWaits = false;
};

struct State {
  std::recursive_mutex mutex;
  std::vector<Stream> streams;
  std::map<size_t, size_t> defaults; // stream by device
  std::unordered_map<const void *, Block> blocks;
  std::set<const void *> mapped; // blocks that no allocator gave
  std::unordered_map<std::string, Operator> operators;
  std::vector<std::string> problems;
  std::set<std::string> known;
  int64_t hostWaits = 0;
  int64_t arrivalsBehindOperators = 0;
  std::string lastHostWait;
};

/// Never destroyed: memory is freed until the very end.
State &state() {
  static auto *const only = new State();
  return *only;
}

struct Thread {
  std::vector<std::pair<size_t, size_t>> scopes; // device, stream
  std::shared_ptr<Clock> clock = std::make_shared<Clock>();
  int unwatched = 0;
};
thread_local Thread self;

void join(Clock &clock, const Clock &more) {
  clock.resize(std::max(clock.size(), more.size()));
  for (size_t i = 0; i < more.size(); ++i)
    clock[i] = std::max(clock[i], more[i]);
}

bool isBefore(const Access &access, const Clock &clock) {
  return access.stream < clock.size() && access.tick <= clock[access.stream];
}

const std::string &nameOf(size_t stream) { return state().streams[stream].name; }

void note(std::string problem) {
  if (state().known.insert(problem).second)
    state().problems.push_back(std::move(problem));
}

Access tick(size_t stream, std::string what) {
  Clock &clock = state().streams[stream].clock;
  join(clock, *self.clock);
  clock.resize(std::max(clock.size(), stream + 1));
  return {stream, ++clock[stream], std::move(what)};
}

/// The pool of a stream may give out memory that other streams still use.
void checkReuse(const Block &block, const Access &access) {
  if (block.stream == kHost)
    return;
  std::vector<Access> &uses = state().streams[block.stream].uses;
  std::erase_if(
      uses, [&](const Access &use) { return isBefore(use, state().streams[block.stream].clock); });
  for (const Access &use : uses)
    if (!isBefore(use, state().streams[access.stream].clock))
      note(fmt::format("{} on {} may get memory that {} on {} still uses: it was freed, and not "
                       "held for that stream",
                       access.what, nameOf(access.stream), use.what, nameOf(use.stream)));
}

void apply(Block &block, const Access &access, bool writes) {
  const Clock &clock = state().streams[access.stream].clock;
  if (block.device != state().streams[access.stream].device)
    note(fmt::format("{} on {} uses memory of device {}{}", access.what, nameOf(access.stream),
                     block.device, block.write ? ", written by " + block.write->what : ""));
  if (block.write && !isBefore(*block.write, clock))
    note(fmt::format("{} on {} {} what {} on {} wrote, and does not wait for it", access.what,
                     nameOf(access.stream), writes ? "overwrites" : "reads", block.write->what,
                     nameOf(block.write->stream)));
  if (!writes) {
    block.reads[access.stream] = access;
    return;
  }
  for (const auto &[stream, read] : block.reads)
    if (!isBefore(read, clock))
      note(fmt::format("{} on {} overwrites what {} on {} reads, and does not wait for it",
                       access.what, nameOf(access.stream), read.what, nameOf(stream)));
  if (block.isFresh)
    checkReuse(block, access);
  block.isFresh = false;
  block.write = access;
  block.reads.clear();
}

const void *memoryOf(const at::Tensor &tensor) {
  return tensor.defined() && tensor.has_storage() && tensor.storage().nbytes() > 0
             ? tensor.storage().data()
             : nullptr;
}

Block *blockOf(const void *memory) {
  const auto found = state().blocks.find(memory);
  return found == state().blocks.end() ? nullptr : &found->second;
}

// --- memory -------------------------------------------------------------------------------------

c10::Allocator *plainAllocator = nullptr;

void freeWatched(void *memory) {
  {
    std::lock_guard<std::recursive_mutex> lock(state().mutex);
    if (const auto found = state().blocks.find(memory); found != state().blocks.end()) {
      const Block &block = found->second;
      if (block.stream != kHost) {
        Stream &pool = state().streams[block.stream];
        auto keep = [&](const Access &access) {
          if (access.stream != block.stream && !block.held.count(access.stream) &&
              !isBefore(access, pool.clock))
            pool.uses.push_back(access);
        };
        if (block.write)
          keep(*block.write);
        for (const auto &[stream, read] : block.reads)
          keep(read);
      }
      state().blocks.erase(found);
    }
  }
  plainAllocator->raw_deleter()(memory);
}

class WatchedAllocator : public c10::Allocator {
public:
  c10::DataPtr allocate(size_t bytes) override {
    c10::DataPtr plain = plainAllocator->allocate(bytes);
    void *const memory = plain.get();
    if (!memory || plain.get_context() != memory)
      return plain;
    plain.release_context();
    std::lock_guard<std::recursive_mutex> lock(state().mutex);
    Block block;
    if (!self.scopes.empty()) {
      const auto [device, stream] = self.scopes.back();
      block.device = device;
      block.stream = stream;
      // The same memory may have been used and freed before on this stream.
      const Clock &clock = state().streams[stream].clock;
      block.write = Access{stream, stream < clock.size() ? clock[stream] : 0, "an earlier user"};
    }
    state().blocks[memory] = std::move(block);
    state().mapped.erase(memory);
    return {memory, memory, &freeWatched, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &freeWatched; }
  void copy_data(void *to, const void *from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

// --- operators ----------------------------------------------------------------------------------

/// Operators whose result is a size or a flag, or memory without content.
bool readsNothing(const std::string &name) {
  static const std::set<std::string> names = {
      "aten::empty_like", "aten::new_empty",  "aten::new_empty_strided", "aten::zeros_like",
      "aten::ones_like",  "aten::full_like",  "aten::new_zeros",         "aten::new_ones",
      "aten::new_full",   "aten::rand_like",  "aten::randn_like",        "aten::size",
      "aten::stride",     "aten::numel",      "aten::is_same_size",      "aten::sym_size",
      "aten::sym_numel",  "aten::result_type"};
  return names.count(name) > 0;
}

bool waitsOnHost(const std::string &name) {
  static const std::set<std::string> names = {"aten::_local_scalar_dense",
                                              "aten::nonzero",
                                              "aten::equal",
                                              "aten::_unique2",
                                              "aten::unique_dim",
                                              "aten::unique_consecutive",
                                              "aten::bincount",
                                              "aten::masked_select",
                                              "aten::repeat_interleave",
                                              "aten::is_nonzero",
                                              "aten::_assert_scalar"};
  return names.count(name) > 0;
}

const Operator *operatorOf(const at::RecordFunction &function) {
  const std::optional<c10::OperatorName> name = function.operator_name();
  if (!name)
    return nullptr;
  const std::string full = name->name + "." + name->overload_name;
  auto [found, isNew] = state().operators.try_emplace(full);
  if (isNew) {
    Operator &made = found->second;
    made.name = name->name;
    made.fills =
        name->name.rfind("aten::empty", 0) != 0 && name->name.rfind("aten::new_empty", 0) != 0;
    made.hostWaits = waitsOnHost(name->name);
    if (const auto handle = c10::Dispatcher::singleton().findSchema(*name)) {
      made.results = handle->schema().returns().size();
      for (const c10::Argument &argument : handle->schema().arguments()) {
        const c10::AliasInfo *alias = argument.alias_info();
        // A view reads nothing.
        made.arguments.push_back(alias && alias->isWrite()           ? Operator::Use::Write
                                 : alias || readsNothing(name->name) ? Operator::Use::None
                                                                     : Operator::Use::Read);
      }
    }
  }
  return &found->second;
}

/// A call in progress.
struct Call : at::ObserverContext {
  const Operator *called = nullptr;
  std::optional<Access> access; // none: work of the host
  std::set<const void *> given;
};

/// Memory that is shared until its first write is not what a writer writes.
bool isCopiedOnWrite(const at::Tensor &tensor) {
  return c10::impl::cow::is_cow_data_ptr(tensor.storage().unsafeGetStorageImpl()->data_ptr());
}

void collect(const c10::IValue &value, bool writes, std::vector<const void *> &found) {
  auto add = [&](const at::Tensor &tensor) {
    if (const void *memory = memoryOf(tensor); memory && !(writes && isCopiedOnWrite(tensor)))
      found.push_back(memory);
  };
  if (value.isTensor())
    add(value.toTensor());
  else if (value.isTensorList() || value.isList() || value.isTuple())
    forEachTensor(value, add);
}

/// The stream of an operator: of the device whose memory it uses; without any, the current one.
std::optional<size_t> streamFor(const std::vector<const void *> &memories) {
  std::optional<size_t> device;
  for (const void *memory : memories)
    if (const Block *block = blockOf(memory);
        block && block->device != kHost && !(block->isMapped && !self.scopes.empty())) {
      device = block->device;
      if (!self.scopes.empty() && *device == self.scopes.back().first)
        break;
    }
  if (!self.scopes.empty() && (!device || *device == self.scopes.back().first))
    return self.scopes.back().second;
  return device ? std::optional<size_t>(state().defaults.at(*device)) : std::nullopt;
}

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction &function) {
  if (self.unwatched > 0)
    return nullptr;
  std::lock_guard<std::recursive_mutex> lock(state().mutex);
  auto call = std::make_unique<Call>();
  call->called = operatorOf(function);
  if (!call->called || function.inputs().size() < call->called->arguments.size())
    return nullptr;
  const size_t count = call->called->arguments.size();
  const auto inputs = function.inputs().slice(function.inputs().size() - count);
  std::vector<const void *> read, written, all;
  for (size_t i = 0; i < count; ++i) {
    std::vector<const void *> found;
    collect(inputs[i], call->called->arguments[i] == Operator::Use::Write, found);
    all.insert(all.end(), found.begin(), found.end());
    if (call->called->arguments[i] == Operator::Use::Read)
      read.insert(read.end(), found.begin(), found.end());
    if (call->called->arguments[i] == Operator::Use::Write)
      written.insert(written.end(), found.begin(), found.end());
  }
  call->given.insert(all.begin(), all.end());
  std::vector<const void *> used = read;
  used.insert(used.end(), written.begin(), written.end());
  const std::optional<size_t> stream = streamFor(used.empty() ? all : used);
  if (!stream)
    return call;
  call->access = tick(*stream, call->called->name);
  bool usesDevice = false;
  for (const void *memory : read)
    if (Block *block = blockOf(memory);
        block && block->device != kHost &&
        !(block->isMapped && block->device != state().streams[*stream].device)) {
      apply(*block, *call->access, false);
      usesDevice = true;
    }
  state().streams[*stream].computes |= usesDevice;
  for (const void *memory : written) {
    Block *block = blockOf(memory);
    const size_t device = state().streams[*stream].device;
    if (!block || (block->isMapped && block->device != device)) {
      block = &(state().blocks[memory] = Block());
      block->isMapped = true;
      state().mapped.insert(memory);
    }
    if (block->device == kHost) // weights: loaded by the host, trained on a device
      block->device = device;
    apply(*block, *call->access, true);
  }
  if (call->called->hostWaits && usesDevice) {
    join(*self.clock, state().streams[*stream].clock);
    if (self.scopes.empty()) // the caller of a pipeline
      return call;
    ++state().hostWaits;
    state().lastHostWait = call->called->name + " on " + nameOf(*stream);
  }
  return call;
}

void end(const at::RecordFunction &function, at::ObserverContext *context) {
  const auto *call = static_cast<Call *>(context);
  if (!call || !call->access || !call->called->fills || function.outputs().empty())
    return;
  std::lock_guard<std::recursive_mutex> lock(state().mutex);
  const std::vector<c10::IValue> &outputs = function.outputs();
  std::vector<const void *> made;
  for (size_t i = outputs.size() - std::min(outputs.size(), call->called->results);
       i < outputs.size(); ++i)
    collect(outputs[i], /*writes=*/false, made);
  for (const void *memory : made)
    if (Block *block = blockOf(memory);
        block && block->device != kHost && block->isFresh && !call->given.count(memory))
      apply(*block, *call->access, true);
}

} // namespace

StreamMonitor &StreamMonitor::get() {
  static auto *const only = new StreamMonitor();
  return *only;
}

StreamMonitor::StreamMonitor() {
  plainAllocator = c10::GetCPUAllocator();
  static auto *const watched = new WatchedAllocator();
  c10::SetCPUAllocator(watched, /*priority=*/100);
  at::addGlobalCallback(at::RecordFunctionCallback(&begin, &end)
                            .needsInputs(true)
                            .needsOutputs(true)
                            .scopes({at::RecordScope::FUNCTION}));
}

void StreamMonitor::addDevice(size_t device) {
  std::lock_guard<std::recursive_mutex> lock(state().mutex);
  if (state().defaults.count(device))
    return;
  state().defaults[device] = state().streams.size();
  state().streams.push_back({device, fmt::format("the default stream of test:{}", device), {}, {}});
}

size_t StreamMonitor::addStream(size_t device) {
  std::lock_guard<std::recursive_mutex> lock(state().mutex);
  const size_t number = state().streams.size();
  state().streams.push_back({device, fmt::format("stream {} of test:{}", number, device), {}, {}});
  return number;
}

size_t StreamMonitor::defaultStream(size_t device) {
  std::lock_guard<std::recursive_mutex> lock(state().mutex);
  return state().defaults.at(device);
}

void StreamMonitor::forgetMapped() {
  std::lock_guard<std::recursive_mutex> lock(state().mutex);
  for (const void *memory : state().mapped)
    state().blocks.erase(memory);
  state().mapped.clear();
}

void StreamMonitor::enter(size_t device, size_t stream) { self.scopes.push_back({device, stream}); }
void StreamMonitor::leave() { self.scopes.pop_back(); }

size_t StreamMonitor::currentStream(size_t device) {
  if (!self.scopes.empty() && self.scopes.back().first == device)
    return self.scopes.back().second;
  return defaultStream(device);
}

std::shared_ptr<Clock> StreamMonitor::mark(size_t stream) {
  std::lock_guard<std::recursive_mutex> lock(state().mutex);
  tick(stream, "a fence");
  return std::make_shared<Clock>(state().streams[stream].clock);
}

void StreamMonitor::waitFor(size_t stream, const Clock &clock) {
  std::lock_guard<std::recursive_mutex> lock(state().mutex);
  join(state().streams[stream].clock, clock);
}

void StreamMonitor::finish(const std::vector<size_t> &streams) {
  std::lock_guard<std::recursive_mutex> lock(state().mutex);
  for (size_t stream : streams)
    join(*self.clock, state().streams[stream].clock);
}

std::shared_ptr<const Clock> StreamMonitor::known() { return self.clock; }
void StreamMonitor::tell(const Clock &clock) {
  std::lock_guard<std::recursive_mutex> lock(state().mutex);
  join(*self.clock, clock);
}

void StreamMonitor::hold(const at::Tensor &tensor, size_t stream) {
  std::lock_guard<std::recursive_mutex> lock(state().mutex);
  if (Block *block = blockOf(memoryOf(tensor)))
    block->held.insert(stream);
}

void StreamMonitor::access(const at::Tensor &tensor, bool writes, size_t stream, const char *what) {
  std::lock_guard<std::recursive_mutex> lock(state().mutex);
  if (Block *block = blockOf(memoryOf(tensor)); block && block->device != kHost)
    apply(*block, tick(stream, what), writes);
}

StreamMonitor::Unwatched::Unwatched() { ++self.unwatched; }
StreamMonitor::Unwatched::~Unwatched() { --self.unwatched; }

std::string StreamMonitor::takeProblem() {
  std::lock_guard<std::recursive_mutex> lock(state().mutex);
  const std::string first = state().problems.empty() ? "" : state().problems.front();
  state().problems.clear();
  state().known.clear();
  return first;
}

void StreamMonitor::arrives(size_t device, size_t stream) {
  std::lock_guard<std::recursive_mutex> lock(state().mutex);
  if (state().streams[stream].computes && stream != state().defaults.at(device))
    ++state().arrivalsBehindOperators;
}

int64_t StreamMonitor::arrivalsBehindOperators() {
  std::lock_guard<std::recursive_mutex> lock(state().mutex);
  return state().arrivalsBehindOperators;
}

int64_t StreamMonitor::hostWaits() {
  std::lock_guard<std::recursive_mutex> lock(state().mutex);
  return state().hostWaits;
}

std::string StreamMonitor::lastHostWait() {
  std::lock_guard<std::recursive_mutex> lock(state().mutex);
  return state().lastHostWait;
}

} // namespace pipec::test
