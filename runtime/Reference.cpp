#include "ir/ModelSignature.h"
#include "ir/NodeInfo.h"
#include "ir/RandomOps.h"
#include "ir/TorchError.h"
#include "ir/TrainingModules.h"
#include "ir/artifact/StageModule.h"
#include "ir/batch/BatchSplit.h"
#include "ir/batch/MergeOutputs.h"
#include "ir/batch/MicroBatch.h"
#include "ir/batch/ResultTree.h"
#include "ir/batch/discovery/ResultSnapshots.h"
#include "ir/graph/Dropout.h"
#include "ir/support/Try.h"
#include "ir/torchfile/TorchFile.h"
#include "ir/values/MapTensors.h"
#include "runtime/RandomKey.h"
#include "runtime/ReferenceImpl.h"
#include "runtime/Resources.h"
#include "runtime/StateCopy.h"
#include "runtime/ThreadSettings.h"

#include <c10/core/GradMode.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/ir.h>

#include <chrono>
#include <optional>

namespace pipec {

namespace jit = torch::jit;

namespace {

bool draws(const jit::Node *node) { return isRandomOp(node->kind().toQualString()); }

bool mayWrite(const jit::Node *node) {
  const c10::FunctionSchema *schema = node->maybeSchema();
  return schema && schema->is_mutable();
}

/// Whether a value is a parameter of a module, or a view of one.
bool isParameter(const jit::Value *value) {
  const jit::Node *node = value->node();
  while (node->kind().is_aten() && !node->inputs().empty()) {
    const c10::FunctionSchema *schema = node->maybeSchema();
    if (!schema || schema->returns().size() != 1 || !schema->returns()[0].alias_info())
      return false;
    node = node->input(0)->node();
  }
  if (node->kind() != c10::prim::GetAttr)
    return false;
  const auto type = node->input(0)->type()->cast<c10::ClassType>();
  const std::optional<size_t> slot =
      type ? type->findAttributeSlot(node->s(c10::attr::name)) : std::nullopt;
  return slot && type->is_parameter(*slot);
}

bool writesParameter(const jit::Node *node) {
  const c10::FunctionSchema *schema = node->maybeSchema();
  for (size_t i = 0; schema && i < schema->arguments().size() && i < node->inputs().size(); ++i) {
    const c10::AliasInfo *alias = schema->arguments()[i].alias_info();
    if (alias && alias->isWrite() && isParameter(node->input(i)))
      return true;
  }
  return false;
}

bool assigns(const jit::Node *node) { return node->kind() == c10::prim::SetAttr; }

void pointConstantsAt(jit::Block *block, const std::string &device) {
  for (jit::Node *node : block->nodes()) {
    if (node->kind() == c10::prim::Constant &&
        node->output()->type()->kind() == c10::TypeKind::DeviceObjType &&
        node->hasAttribute(c10::attr::value) && node->s(c10::attr::value) != "meta")
      node->s_(c10::attr::value, device);
    for (jit::Block *inner : node->blocks())
      pointConstantsAt(inner, device);
  }
}

/// Does the same as the user's .to(device), also for devices that tracing wrote into the graphs.
/// Call it before the first run.
void moveTo(jit::Module &module, const c10::Device &device) {
  module.to(device);
  for (jit::Function *function : module._ivalue()->compilation_unit()->get_functions())
    if (auto *graphFunction = jit::tryToGraphFunction(*function))
      pointConstantsAt(graphFunction->graph()->block(), device.str());
}

} // namespace

llvm::Expected<jit::Module> Reference::Impl::freshModule() const {
  llvm::Expected<jit::Module> loaded = loadSource(path, options.mode);
  if (!loaded || device->where().is_cpu())
    return loaded;
  if (llvm::Error error =
          guardTorchVoid(ExitCode::Other, path + ": moving to device " + device->name(),
                         [&] { moveTo(*loaded, device->where()); }))
    return error;
  return loaded;
}

llvm::Error Reference::Impl::readSignature() {
  jit::Method method = TRY(methodOf(*module, path, options.method));
  const c10::FunctionSchema &schema = method.function().getSchema();
  signature = signatureOf(schema, options.method);
  for (size_t i = 1; i < schema.arguments().size(); ++i)
    types.push_back(schema.arguments()[i].type());
  // A model that writes anything gets its own inputs in every micro-batch. Which inputs it writes
  // is not decided, because a branch may not have been taken yet.
  const bool writes = anyNodeInside(*module, mayWrite);
  assignsState = anyNodeInside(*module, assigns);
  keepsState = writes || assignsState;
  writesParameters = anyNodeInside(*module, writesParameter);
  if (writes)
    for (InputSpec &input : signature.inputs)
      input.written = true;
  batchDimGiven = TRY(applyBatchDims(signature, options.batchDims));
  for (const InputSpec &input : signature.inputs)
    partsGiven.push_back(input.parts);
  return llvm::Error::success();
}

llvm::Expected<c10::IValue> Reference::Impl::run(jit::Module &on, std::vector<c10::IValue> inputs,
                                                 uint64_t microBatch, int64_t *busyNs) {
  Fence before, after;
  auto result = guardTorch(ExitCode::Usage, fmt::format("micro-batch {}", microBatch), [&] {
    std::unique_ptr<Device::Scope> scope = device->enter(stream);
    jit::Stack stack;
    stack.reserve(inputs.size());
    for (c10::IValue &input : inputs)
      stack.push_back(device->hasStreams() ? device->bringInput(std::move(input))
                                           : std::move(input));
    before = device->mark();
    static const std::vector<int64_t> inOrder;
    std::optional<RandomScope> random;
    if (draws)
      random.emplace(RandomKey{options.seed, calls, microBatch}, inOrder);
    c10::IValue value = runMethod(on, options.method, std::move(stack));
    drew = drew || (random && random->taken() > 0);
    after = device->mark();
    if (busyNs) {
      device->finish();
      *busyNs += device->nsBetween(before, after);
    }
    return value;
  });
  return result;
}

/// Runs on a separate copy: the mapped weights are shared until the model writes into them.
llvm::Expected<std::vector<c10::IValue>>
Reference::Impl::runFresh(std::vector<std::vector<c10::IValue>> inOrder, bool dropsNothing) {
  jit::Module fresh = TRY(freshModule());
  removePrints(fresh); // the micro-batches print already
  if (dropsNothing)
    TRY(guardTorchVoid(ExitCode::Other, path + ": turning off dropout",
                       [&] { turnOffDropout(fresh); }));
  std::vector<c10::IValue> results;
  for (std::vector<c10::IValue> &inputs : inOrder) {
    c10::IValue value = TRY(run(fresh, std::move(inputs), 0, nullptr));
    // A training's graph of one run is of no use to the next.
    if (c10::GradMode::is_enabled())
      value = mapTensors(value, [](const at::Tensor &tensor) {
        return tensor.defined() ? tensor.detach() : tensor;
      });
    results.push_back(keepsState || inOrder.size() > 1 ? ownCopies(value).front()
                                                       : std::move(value));
  }
  return results;
}

/// Before the first call of an inference: the modules that a user may have meant to be in eval
/// mode.
llvm::Error Reference::Impl::noteTrainingMode() {
  if (calls > 0 || training || options.mode.training == true)
    return llvm::Error::success();
  return guardTorchVoid(ExitCode::Internal, path + ": reading training flags", [&] {
    for (std::string &note :
         trainingModules(*module, options.method).notes("--infer runs them in eval mode"))
      notes.push_back(std::move(note));
  });
}

Reference::Reference(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Reference::Reference(Reference &&) = default;
Reference &Reference::operator=(Reference &&) = default;
Reference::~Reference() = default;

llvm::Expected<Reference> Reference::load(const std::string &path,
                                          const ReferenceOptions &options) {
  if (options.microBatches < 1 || options.threads < 0)
    return makeError(ExitCode::Usage, "micro-batches and threads: expected at least 1");
  auto impl = std::make_unique<Impl>();
  impl->path = path;
  impl->options = options;
  impl->threads = options.threads > 0 ? options.threads : defaultThreads(1);
  impl->device = TRY(makeDevice(options.device));
  impl->stream = impl->device->addStream();
  impl->module = TRY(impl->freshModule());
  impl->draws = anyNodeInside(*impl->module, draws);
  TRY(impl->readSignature());
  return Reference(std::move(impl));
}

const Signature &Reference::signature() const { return impl_->signature; }
std::vector<c10::TypePtr> Reference::inputTypes() const { return impl_->types; }
int Reference::threads() const { return impl_->threads; }
std::string Reference::device() const { return impl_->device->name(); }
const std::vector<std::string> &Reference::notes() const { return impl_->notes; }
const std::vector<std::string> &Reference::warnings() const { return impl_->warnings; }
int64_t Reference::peakMemoryBytes() const { return impl_->device->peakMemoryBytes(); }

llvm::Error Reference::Impl::finishDevice() {
  if (!device->hasStreams())
    return llvm::Error::success();
  return guardTorchVoid(ExitCode::Other, "device " + device->name(), [&] { device->finish(); });
}

llvm::Error Reference::Impl::onStream(llvm::function_ref<llvm::Error()> body) {
  return guardTorchError(ExitCode::Other, "device " + device->name(), [&] {
    std::unique_ptr<Device::Scope> scope = device->enter(stream);
    return body();
  });
}

llvm::Expected<c10::IValue> Reference::infer(const std::vector<c10::IValue> &inputs,
                                             StepStats *stats) {
  if (llvm::Error error = impl_->finishDevice()) // the caller may have made the inputs on it
    return std::move(error);
  c10::IValue result;
  llvm::Error error = impl_->onStream([&]() -> llvm::Error {
    result = TRY(inferOrRestore(inputs, stats));
    return llvm::Error::success();
  });
  if (error)
    return std::move(error);
  error = guardTorchVoid(ExitCode::Other, "device " + impl_->device->name(), [&] {
    result = impl_->device->bring(std::move(result), *impl_->device);
    impl_->device->finish();
  });
  if (error)
    return std::move(error);
  return result;
}

llvm::Expected<c10::IValue> Reference::inferOrRestore(const std::vector<c10::IValue> &inputs,
                                                      StepStats *stats) {
  std::optional<ModuleStateCopy> before;
  if (impl_->keepsState)
    TRY(guardTorchVoid(ExitCode::Other, "copying the model's state",
                       [&] { before.emplace(impl_->module->_ivalue(), impl_->writesParameters); }));
  const uint64_t calls = impl_->calls;
  llvm::Expected<c10::IValue> result = inferOnce(inputs, stats);
  if (result) {
    if (calls == 0)
      TRY(impl_->noteState());
    return result;
  }
  impl_->calls = calls;
  if (before)
    if (llvm::Error error = guardTorchVoid(ExitCode::Other, "restoring the model's state", [&] {
          impl_->device->finish();
          before->restore();
        })) {
      llvm::consumeError(result.takeError()); // a model with half of its state is worse
      return std::move(error);
    }
  return result;
}

llvm::Expected<c10::IValue> Reference::inferOnce(const std::vector<c10::IValue> &inputs,
                                                 StepStats *stats) {
  Inferred inferred = TRY(inferLeaves(inputs, stats));
  return mergeOutputs(impl_->signature, inferred.leaves, inferred.samples,
                      stats ? &stats->warnings : nullptr);
}

llvm::Expected<Reference::Inferred> Reference::inferLeaves(const std::vector<c10::IValue> &inputs,
                                                           StepStats *stats) {
  Impl &impl = *impl_;
  if (inputs.size() != impl.signature.inputs.size())
    return failf(ExitCode::Usage, "inputs: expected {}, got {}", impl.signature.inputs.size(),
                 inputs.size());
  ThreadSettings settings(impl.threads);
  if (!std::exchange(impl.saidMode, true))
    TRY(impl.noteTrainingMode());
  const bool isWhole = impl.options.microBatches == 1;
  if (isWhole)
    impl.guessBatch(inputs);
  else if (!impl.known)
    TRY(impl.learn(inputs));
  BatchParts parts = TRY(splitBatch(impl.signature, inputs, impl.options.microBatches));

  std::vector<c10::IValue> results;
  int64_t busyNs = 0;
  auto start = std::chrono::steady_clock::now();
  for (size_t k = 0; k < parts.inputs.size(); ++k) {
    llvm::Expected<c10::IValue> value = impl.run(*impl.module, parts.inputs[k], k, &busyNs);
    if (!value)
      return impl.explained(value.takeError(), parts.inputs[k]);
    if (impl.keepsState && parts.inputs.size() > 1)
      value = guardTorch(ExitCode::Other, "copying results",
                         [&] { return apartFrom(*value, c10::IValue(impl.module->_ivalue())); });
    if (!value)
      return value.takeError();
    results.push_back(std::move(*value));
  }
  int64_t makespanNs = (std::chrono::steady_clock::now() - start) / std::chrono::nanoseconds(1);
  ++impl.calls;
  if (isWhole)
    describeResult(impl.signature, results.front());
  auto leaves = TRY(impl.leavesOf(results));
  if (stats) {
    double idle =
        makespanNs > 0
            ? std::max(0.0, 1 - static_cast<double>(busyNs) / static_cast<double>(makespanNs))
            : 0;
    *stats = {makespanNs, {busyNs}, idle, idle};
  }
  return Inferred{std::move(leaves), std::move(parts.samples)};
}

} // namespace pipec
