// The checkpoints of a reference: one file.
#include "ir/TorchError.h"
#include "ir/checkpoint/CheckpointFolder.h"
#include "ir/checkpoint/ModelState.h"
#include "ir/checkpoint/Restore.h"
#include "ir/support/Try.h"
#include "llvm/ADT/STLExtras.h"
#include "runtime/ReferenceTraining.h"
#include "runtime/checkpoint/TrainingRecord.h"

#include <c10/core/GradMode.h>

#include <unordered_map>

namespace pipec {

namespace {

/// The number of each trained tensor.
std::unordered_map<const void *, size_t> numbersOf(const ReferenceTraining &training) {
  std::unordered_map<const void *, size_t> numbers; // only looked up
  for (size_t i = 0; i < training.tensors.size(); ++i)
    numbers.emplace(training.tensors[i].tensor.unsafeGetTensorImpl(), i);
  return numbers;
}

llvm::Error noForm(const std::string &name) {
  return failf(ExitCode::Usage,
               "checkpoint: {}: expected state of tensors, numbers, texts and their containers, "
               "got an object",
               name);
}

std::vector<SavedValue> savedOf(std::vector<ModelValue> values, const ReferenceTraining &training) {
  const std::unordered_map<const void *, size_t> numbers = numbersOf(training);
  std::vector<SavedValue> result;
  for (ModelValue &each : values) {
    SavedValue saved;
    saved.about.name = each.names.front();
    saved.about.otherNames.assign(each.names.begin() + 1, each.names.end());
    saved.about.kind = each.kind;
    saved.about.used = false;
    saved.value = each.value.isTensor() ? c10::IValue(each.value.toTensor().detach()) : each.value;
    const auto number = each.kind == AttributeKind::Parameter
                            ? numbers.find(each.value.toTensor().unsafeGetTensorImpl())
                            : numbers.end();
    if (number != numbers.end()) {
      saved.about.used = number->second < training.used.size() && training.used[number->second];
      if (training.optimizer)
        saved.optimizer = training.optimizer->state(number->second);
    }
    result.push_back(std::move(saved));
  }
  return result;
}

/// The checkpoint's value for each value of the model; null: it stays as it is.
std::vector<const SavedValue *> placesOf(const std::vector<ModelValue> &values,
                                         const CheckpointValues &checkpoint) {
  std::vector<const SavedValue *> places;
  for (const ModelValue &each : values)
    places.push_back(checkpoint.findAny(each.names));
  return places;
}

/// Whether the model and its optimizers can take the values of a checkpoint. Changes nothing.
/// Throws LibTorch's exceptions.
llvm::Error checkPlaces(const torch::jit::Module &module, const std::vector<ModelValue> &values,
                        const CheckpointValues &checkpoint, ReferenceTraining &training) {
  const std::unordered_map<const void *, size_t> numbers = numbersOf(training);
  std::vector<std::string> names;
  for (const ModelValue &each : values) {
    names.insert(names.end(), each.names.begin(), each.names.end());
    const SavedValue *saved = checkpoint.findAny(each.names);
    if (!saved)
      continue;
    if (each.kind != AttributeKind::Parameter) {
      TRY(checkDeclared(*saved, typeOfAttribute(module, each.names.front())));
      continue;
    }
    TRY(checkFits(*saved, each.value.toTensor()));
    TRY(checkStateFits(*saved, each.value.toTensor()));
    const auto number = numbers.find(each.value.toTensor().unsafeGetTensorImpl());
    if (number != numbers.end() && training.optimizer)
      if (llvm::Error error = training.optimizer->checkState(number->second, saved->optimizer))
        return withContext(std::move(error), "checkpoint: " + each.names.front());
  }
  return checkNoneIsLeft(checkpoint, names);
}

/// Throws LibTorch's exceptions.
llvm::Error fillReference(torch::jit::Module &module, const std::vector<ModelValue> &values,
                          const std::vector<const SavedValue *> &places,
                          ReferenceTraining &training) {
  const std::unordered_map<const void *, size_t> numbers = numbersOf(training);
  training.used.assign(training.tensors.size(), false);
  training.absent.assign(training.tensors.size(), false);
  for (size_t i = 0; i < values.size(); ++i) {
    const ModelValue &each = values[i];
    const SavedValue *saved = places[i];
    const auto number = each.kind == AttributeKind::Parameter
                            ? numbers.find(each.value.toTensor().unsafeGetTensorImpl())
                            : numbers.end();
    if (number != numbers.end()) {
      training.absent[number->second] = !saved;
      training.used[number->second] = saved && saved->about.used;
      if (training.optimizer)
        if (llvm::Error error = training.optimizer->setState(
                number->second, saved ? saved->optimizer : OptimizerState()))
          return withContext(std::move(error), "restoring " + each.names.front());
    }
    if (!saved)
      continue;
    llvm::Expected<c10::IValue> value =
        restored(saved->value, each.value, typeOfAttribute(module, each.names.front()));
    if (!value)
      return withContext(value.takeError(), "restoring " + each.names.front());
    if (!value->is(each.value))
      for (const std::string &name : each.names)
        setAttribute(module, name, *value);
  }
  return llvm::Error::success();
}

llvm::Error referenceInfers(const char *what) {
  return makeError(ExitCode::Usage,
                   std::string(what) + ": expected a reference that trains, got one that infers",
                   "call train() first");
}

} // namespace

TrainingRecord Reference::Impl::record() {
  return {training->options,    training->rates,
          training->skipped,    calls,
          options.seed,         training->given ? training->given : options.microBatches,
          training->given != 0, threads};
}

llvm::Error Reference::saveCheckpoint(const std::string &directory,
                                      const CheckpointOptions &options) {
  Impl &impl = *impl_;
  if (!impl.training)
    return referenceInfers("a checkpoint");
  std::vector<SavedValue> values;
  std::vector<std::string> objects;
  TRY(guardTorchVoid(ExitCode::Other, "collecting a checkpoint",
                     [&] { values = savedOf(modelState(*impl.module, objects), *impl.training); }));
  if (impl.keepsState && !objects.empty())
    return noForm(objects.front());
  CheckpointText text = TRY(describeTraining(impl.record(), options));
  CheckpointWriter writer = TRY(CheckpointWriter::create(directory, text.step));
  CheckpointFile file = TRY(writeSaved(writer.directory(), "stage-0.pt", std::move(values)));
  text.files.push_back(std::move(file));
  return writer.finish(text, options.keep);
}

llvm::Expected<ResumedTraining> Reference::resume(const std::string &path, bool passOverDamaged) {
  Impl &impl = *impl_;
  if (!impl.training)
    return referenceInfers("a resume");
  TrainingRecord record = impl.record();
  std::vector<std::string> differences, objects;
  const std::vector<ModelValue> own = modelState(*impl.module, objects);
  auto check = [&](const OpenedCheckpoint &opened, const CheckpointValues &values) -> llvm::Error {
    auto fits = [&]() -> llvm::Error {
      differences = TRY(compareSettings(opened.text, record));
      return checkPlaces(*impl.module, own, values, *impl.training);
    };
    return withContext(guardTorchError(ExitCode::BadArtifact, "restoring", fits), opened.directory);
  };
  const ReadCheckpoint found = TRY(readCheckpoint(
      path, passOverDamaged ? WhichCheckpoint::NewestGood : WhichCheckpoint::Newest, check));
  const OpenedCheckpoint &checkpoint = found.opened;
  const std::vector<const SavedValue *> places = placesOf(own, found.values);
  TRY(guardTorchError(ExitCode::BadArtifact, checkpoint.directory + ": restoring", [&] {
    c10::AutoGradMode noGrad(false);
    return fillReference(*impl.module, own, places, *impl.training);
  }));
  return resumeRecord(checkpoint, record, std::move(differences));
}

} // namespace pipec
