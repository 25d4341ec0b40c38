#include "runtime/Reference.h"

#include "ir/TorchError.h"
#include "ir/batch/BatchSplit.h"
#include "ir/batch/MergeOutputs.h"
#include "ir/batch/ResultTree.h"
#include "ir/batch/discovery/ResultSnapshots.h"
#include "ir/support/Try.h"
#include "runtime/ReferenceImpl.h"
#include "runtime/Resources.h"
#include "runtime/StateCopy.h"
#include "runtime/ThreadSettings.h"

#include <chrono>
#include <optional>

namespace pipec {

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
  SourceModule source = TRY(impl->freshSource());
  impl->module = std::move(source.module);
  impl->loss = std::move(source.loss);
  if (impl->loss)
    impl->options.method = impl->loss->method;
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

llvm::Expected<c10::IValue> Reference::infer(const std::vector<c10::IValue> &inputs,
                                             StepStats *stats) {
  TRY(impl_->finishDevice()); // the caller may have made the inputs on it
  c10::IValue result;
  llvm::Error error = impl_->onStream([&]() -> llvm::Error {
    result = TRY(inferOrRestore(inputs, stats));
    return llvm::Error::success();
  });
  if (error)
    return std::move(error);
  TRY(guardTorchVoid(ExitCode::Other, "device " + impl_->device->name(), [&] {
    result = impl_->device->bring(std::move(result), *impl_->device);
    impl_->device->finish();
  }));
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
  BatchParts parts = TRY(splitBatch(impl.signature, inputs, impl.options.microBatches,
                                    /*memory=*/{}, SizesFrom::FirstBatch));

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
