#include "ir/ModelSignature.h"
#include "ir/NodeInfo.h"
#include "ir/RandomOps.h"
#include "ir/TorchError.h"
#include "ir/TrainingModules.h"
#include "ir/artifact/StageModule.h"
#include "ir/batch/BatchSplit.h"
#include "ir/batch/Discovery.h"
#include "ir/batch/FixedBatch.h"
#include "ir/batch/GivenMerges.h"
#include "ir/batch/MergeOutputs.h"
#include "ir/batch/MicroBatch.h"
#include "ir/batch/ResultSnapshots.h"
#include "ir/batch/ResultTree.h"
#include "ir/batch/SizeTrust.h"
#include "ir/plan/OutputPath.h"
#include "ir/torchfile/TorchFile.h"
#include "ir/values/Values.h"
#include "runtime/RandomKey.h"
#include "runtime/ReferenceImpl.h"
#include "runtime/Resources.h"
#include "runtime/StateCopy.h"
#include "runtime/ThreadSettings.h"

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
  llvm::Expected<jit::Method> method = methodOf(*module, path, options.method);
  if (!method)
    return method.takeError();
  const c10::FunctionSchema &schema = method->function().getSchema();
  signature = signatureOf(schema, options.method);
  for (size_t i = 1; i < schema.arguments().size(); ++i)
    types.push_back(schema.arguments()[i].type());
  // A model that writes anything gets its own inputs in every micro-batch. Which inputs it writes
  // is not decided, because a branch may not have been taken yet.
  const bool writes = anyNodeInside(*module, mayWrite);
  keepsState = writes || anyNodeInside(*module, assigns);
  if (writes)
    for (InputSpec &input : signature.inputs)
      input.written = true;
  llvm::Expected<std::vector<bool>> given = applyBatchDims(signature, options.batchDims);
  if (!given)
    return given.takeError();
  batchDimGiven = std::move(*given);
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
Reference::Impl::runFresh(std::vector<std::vector<c10::IValue>> inOrder) {
  llvm::Expected<jit::Module> fresh = freshModule();
  if (!fresh)
    return fresh.takeError();
  removePrints(*fresh); // the micro-batches print already
  std::vector<c10::IValue> results;
  for (std::vector<c10::IValue> &inputs : inOrder) {
    llvm::Expected<c10::IValue> value = run(*fresh, std::move(inputs), 0, nullptr);
    if (!value)
      return value.takeError();
    results.push_back(keepsState || inOrder.size() > 1 ? ownCopies(*value).front()
                                                       : std::move(*value));
  }
  return results;
}

/// A whole batch is not cut, so sizes alone give the number of samples.
void Reference::Impl::guessBatch(const std::vector<c10::IValue> &inputs) {
  llvm::Expected<std::vector<CutCandidate>> ways = cutCandidates(signature, inputs, batchDimGiven);
  if (ways && !ways->empty())
    setCut(signature, ways->front().dims);
  // Without a guess nothing is cut, as for one micro-batch anyway; learn() reports the error.
  llvm::consumeError(ways.takeError());
}

/// Finds out how the batch is cut, before the first call with several micro-batches.
llvm::Error Reference::Impl::learn(const std::vector<c10::IValue> &inputs) {
  DiscoveryOptions how;
  how.batchDimGiven = batchDimGiven;
  how.merges = options.merges;
  how.microBatches = options.microBatches;
  how.findsTree = true;
  how.drawsRandom = [this] { return drew; };
  how.writesState = anyNodeInside(*module, assigns);
  how.trustsSizes = anyNodeInside(*module, mayRunForEverAtOtherSizes);
  auto runAll = [this](std::vector<std::vector<Values>> experiments, const RunRules &rules) {
    std::vector<llvm::Expected<Values>> results;
    DecidingRuns rule;
    for (size_t e = 0; e < experiments.size(); ++e)
      results.push_back(
          rule.start(e < rules.deciding, [&] { return runFresh(std::move(experiments[e])); }));
    return results;
  };
  llvm::Expected<BatchDiscovery> found = discoverBatch(signature, inputs, how, runAll);
  if (!found)
    return found.takeError();
  llvm::append_range(notes, found->notes);
  warnings = std::move(found->warnings);
  known = true;
  return llvm::Error::success();
}

/// Before the first call of an inference: the modules that a user may have meant to be in eval
/// mode.
llvm::Error Reference::Impl::noteTrainingMode() {
  if (calls > 0 || training || options.mode.training == true)
    return llvm::Error::success();
  return guardTorchVoid(ExitCode::Internal, path + ": reading training flags", [&] {
    const TrainingModules found = trainingModules(*module, options.method);
    if (!found.empty())
      notes.push_back(found.note(
          options.mode.training == false
              ? "the file stores the mode as a constant, which --infer does not change; save the "
                "model after model.eval()"
              : "--infer runs them in eval mode"));
  });
}

/// The whole batch does not run: the model's constants may fix another size.
llvm::Error Reference::Impl::explained(llvm::Error error, const std::vector<c10::IValue> &inputs) {
  return explainFixedBatch(withArguments(std::move(error), signature, inputs), signature, inputs,
                           batchDimGiven, [this](std::vector<std::vector<c10::IValue>> inOrder) {
                             return runFresh(std::move(inOrder));
                           });
}

/// The leaves of each result. A list that has another length than in the trial becomes a leaf.
llvm::Expected<std::vector<std::vector<c10::IValue>>>
Reference::Impl::leavesOf(llvm::ArrayRef<c10::IValue> results) {
  for (const c10::IValue &result : results)
    agreeWithResult(signature, result);
  std::vector<std::vector<c10::IValue>> leaves;
  for (const c10::IValue &result : results) {
    llvm::Expected<std::vector<c10::IValue>> flat = flattenOutputs(signature, result);
    if (!flat)
      return flat.takeError();
    leaves.push_back(std::move(*flat));
  }
  return leaves;
}

/// The trial saw equal values, but these micro-batches have different ones. Without an example the
/// rule becomes the one that a better example would have given: list.
void Reference::Impl::correctRules(llvm::ArrayRef<std::vector<c10::IValue>> leaves) {
  const std::vector<bool> given = givenLeaves(signature, options.merges);
  for (size_t l = 0; l < signature.leaves.size(); ++l) {
    MergeRule &rule = signature.leaves[l].merge;
    if (given[l])
      continue;
    std::vector<c10::IValue> parts;
    for (const std::vector<c10::IValue> &microBatch : leaves)
      parts.push_back(microBatch[l]);
    const bool fits = rule.kind == MergeRule::Kind::Same
                          ? llvm::all_of(parts,
                                         [&](const c10::IValue &part) {
                                           return compare(parts.front(), part, 0.0, 0.0).equal;
                                         })
                          : rule.kind != MergeRule::Kind::Concat || fitsConcat(parts, rule.dim);
    if (fits)
      continue;
    rule = {};
    warnings.push_back(fmt::format("{} differs between micro-batches, so it becomes a list "
                                   "of their values; --merge {}=same|list chooses the rule",
                                   resultName(outputPath(signature, l)), outputPath(signature, l)));
  }
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
  llvm::Expected<std::shared_ptr<Device>> device = makeDevice(options.device);
  if (!device)
    return device.takeError();
  impl->device = std::move(*device);
  impl->stream = impl->device->addStream();
  llvm::Expected<jit::Module> module = impl->freshModule();
  if (!module)
    return module.takeError();
  impl->module = std::move(*module);
  impl->draws = anyNodeInside(*impl->module, draws);
  if (llvm::Error error = impl->readSignature())
    return error;
  return Reference(std::move(impl));
}

const Signature &Reference::signature() const { return impl_->signature; }
std::vector<c10::TypePtr> Reference::inputTypes() const { return impl_->types; }
int Reference::threads() const { return impl_->threads; }
std::string Reference::device() const { return impl_->device->name(); }
const std::vector<std::string> &Reference::notes() const { return impl_->notes; }
const std::vector<std::string> &Reference::warnings() const { return impl_->warnings; }
int64_t Reference::peakMemoryBytes() const { return impl_->device->memory().peakBytes; }

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
    llvm::Expected<c10::IValue> found = inferOrRestore(inputs, stats);
    if (!found)
      return found.takeError();
    result = std::move(*found);
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
    if (llvm::Error error = guardTorchVoid(ExitCode::Other, "copying the model's state",
                                           [&] { before.emplace(impl_->module->_ivalue()); }))
      return std::move(error);
  const uint64_t calls = impl_->calls;
  llvm::Expected<c10::IValue> result = inferOnce(inputs, stats);
  if (result)
    return result;
  impl_->calls = calls;
  if (before)
    if (llvm::Error error = guardTorchVoid(ExitCode::Other, "restoring the model's state", [&] {
          impl_->device->finish();
          before->restore();
        })) {
      llvm::consumeError(result.takeError());
      return std::move(error);
    }
  return result;
}

llvm::Expected<c10::IValue> Reference::inferOnce(const std::vector<c10::IValue> &inputs,
                                                 StepStats *stats) {
  llvm::Expected<Inferred> inferred = inferLeaves(inputs, stats);
  if (!inferred)
    return inferred.takeError();
  return mergeOutputs(impl_->signature, inferred->leaves, inferred->samples,
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
    if (llvm::Error error = impl.noteTrainingMode())
      return std::move(error);
  const bool isWhole = impl.options.microBatches == 1;
  if (isWhole)
    impl.guessBatch(inputs);
  else if (!impl.known)
    if (llvm::Error error = impl.learn(inputs))
      return error;
  llvm::Expected<BatchParts> parts = splitBatch(impl.signature, inputs, impl.options.microBatches);
  if (!parts)
    return parts.takeError();

  std::vector<c10::IValue> results;
  int64_t busyNs = 0;
  auto start = std::chrono::steady_clock::now();
  for (size_t k = 0; k < parts->inputs.size(); ++k) {
    llvm::Expected<c10::IValue> value = impl.run(*impl.module, parts->inputs[k], k, &busyNs);
    if (!value)
      return isWhole ? impl.explained(value.takeError(), parts->inputs[k])
                     : withArguments(value.takeError(), impl.signature, parts->inputs[k]);
    if (impl.keepsState && parts->inputs.size() > 1)
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
  auto leaves = impl.leavesOf(results);
  if (!leaves)
    return leaves.takeError();
  impl.correctRules(*leaves);
  if (stats) {
    double idle =
        makespanNs > 0
            ? std::max(0.0, 1 - static_cast<double>(busyNs) / static_cast<double>(makespanNs))
            : 0;
    *stats = {makespanNs, {busyNs}, idle, idle};
  }
  return Inferred{std::move(*leaves), std::move(parts->samples)};
}

} // namespace pipec
