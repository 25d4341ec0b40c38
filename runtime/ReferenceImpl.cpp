// How a reference loads its model, reads its signature, and runs one micro-batch.
#include "runtime/ReferenceImpl.h"

#include "ir/ModelSignature.h"
#include "ir/NodeInfo.h"
#include "ir/RandomOps.h"
#include "ir/TorchError.h"
#include "ir/artifact/StageModule.h"
#include "ir/batch/MicroBatch.h"
#include "ir/graph/Dropout.h"
#include "ir/support/Try.h"
#include "ir/torchfile/TorchFile.h"
#include "ir/values/MapTensors.h"
#include "llvm/ADT/STLExtras.h"
#include "runtime/RandomKey.h"
#include "runtime/WrittenState.h"

#include <c10/core/GradMode.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/ir.h>

#include <optional>

namespace pipec {

namespace {

bool isRandom(const jit::Node *node) { return isRandomOp(node->kind().toQualString()); }

bool mayWrite(const jit::Node *node) {
  const c10::FunctionSchema *schema = node->maybeSchema();
  return schema && schema->is_mutable();
}

/// Whether a value is a parameter of a module, or a view of one, such as its `data`.
bool isParameter(const jit::Value *value) {
  const jit::Node *node = value->node();
  while (node->kind() != c10::prim::GetAttr) {
    const c10::FunctionSchema *schema = node->maybeSchema();
    if (!schema || node->inputs().empty() || schema->returns().size() != 1 ||
        !schema->returns()[0].alias_info())
      return false;
    node = node->input(0)->node();
  }
  const auto type = node->input(0)->type()->cast<c10::ClassType>();
  const std::optional<size_t> slot =
      type && type->is_module() ? type->findAttributeSlot(node->s(c10::attr::name)) : std::nullopt;
  return slot && type->is_parameter(*slot);
}

/// Whether a tensor in the list may be a parameter.
bool mayHoldParameter(const jit::Value *list) {
  return list->node()->kind() != c10::prim::ListConstruct ||
         llvm::any_of(list->node()->inputs(), isParameter) ||
         llvm::any_of(list->uses(), [](const jit::Use &use) {
           return writes(use) && !writesElements(use.user, use.offset);
         });
}

bool writesParameter(const jit::Node *node) {
  const c10::FunctionSchema *schema = node->maybeSchema();
  for (size_t i = 0; schema && i < schema->arguments().size() && i < node->inputs().size(); ++i) {
    const c10::AliasInfo *alias = schema->arguments()[i].alias_info();
    const jit::Value *written = alias && alias->isWrite() ? node->input(i) : nullptr;
    if (written && (writesElements(node, i) ? mayHoldParameter(written) : isParameter(written)))
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

llvm::Expected<SourceModule> Reference::Impl::freshSource() const {
  llvm::Expected<SourceModule> loaded = loadSource(path, options.mode);
  if (!loaded || device->where().is_cpu())
    return loaded;
  if (llvm::Error error =
          guardTorchVoid(ExitCode::Other, path + ": moving to device " + device->name(),
                         [&] { moveTo(loaded->module, device->where()); }))
    return error;
  return loaded;
}

llvm::Expected<jit::Module> Reference::Impl::freshModule() const {
  SourceModule source = TRY(freshSource());
  return std::move(source.module);
}

llvm::Error Reference::Impl::readSignature() {
  jit::Method method = TRY(methodOf(*module, path, options.method));
  const c10::FunctionSchema &schema = method.function().getSchema();
  signature = signatureOf(schema, options.method);
  for (size_t i = 1; i < schema.arguments().size(); ++i)
    types.push_back(schema.arguments()[i].type());
  draws = anyNodeInside(*module, isRandom);
  // A model that writes anything gets its own inputs in every micro-batch. Which inputs it writes
  // is not decided, because a branch may not have been taken yet.
  const bool writes = anyNodeInside(*module, mayWrite);
  keepsState = writes || anyNodeInside(*module, assigns);
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
  // The code alone does not tell: it may write into values of its own, or never run.
  const bool asksWrites = keepsState && !wrote;
  StateValues before;
  if (asksWrites)
    TRY(guardTorchVoid(ExitCode::Other, path + ": copying the model's state", [&] {
      before = stateOf(fresh, writesParameters);
      for (auto &[name, value] : before)
        value = ownCopies(value).front();
    }));
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
  if (asksWrites)
    TRY(guardTorchVoid(ExitCode::Other, path + ": reading the model's state", [&] {
      wrote = !changedState(before, stateOf(fresh, writesParameters)).empty();
    }));
  return results;
}

/// Before the first call of an inference: the modules that a user may have meant to be in eval
/// mode.
llvm::Error Reference::Impl::noteTrainingMode() {
  if (calls > 0 || training || options.mode.training == true)
    return llvm::Error::success();
  return guardTorchVoid(ExitCode::Internal, path + ": reading training flags", [&] {
    for (std::string &note : trainingModulesWithLoss(*module, options.method, loss)
                                 .notes("--infer runs them in eval mode"))
      notes.push_back(std::move(note));
  });
}

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

} // namespace pipec
