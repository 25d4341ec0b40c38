#include "compiler/CheckpointWeights.h"

#include "ir/TorchError.h"
#include "ir/artifact/StageFacts.h"
#include "ir/checkpoint/ModelState.h"
#include "ir/checkpoint/Restore.h"
#include "ir/support/Llvm.h"
#include "ir/support/Try.h"
#include "ir/text/CanonicalText.h"
#include "ir/torchfile/JoinLoss.h"

#include <c10/core/GradMode.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>

#include <optional>
#include <set>

namespace pipec {

namespace {

constexpr const char *kDoing = "putting the checkpoint into the model";

llvm::Error notInCheckpoint(const std::string &name) {
  return makeError(ExitCode::Usage,
                   fmt::format("checkpoint: {}: expected it in the checkpoint, got none", name),
                   "pass the model that the checkpoint was trained from");
}

/// A value of the model and what replaces it.
using Place = std::pair<ModelValue, const SavedValue *>;

/// The stages hold the attributes of an object of a TorchScript class by names of their own.
void addPartsOfObjects(const torch::jit::Module &module, const CheckpointValues &values,
                       std::vector<std::string> &all, std::vector<Place> &places) {
  const std::set<std::string> known(all.begin(), all.end());
  for (const SavedValue &saved : values.all()) {
    const std::string &name = saved.about.name;
    std::optional<c10::IValue> own = attributeAt(module, name);
    if (!own || known.count(name))
      continue;
    all.push_back(name);
    places.push_back({{{name}, AttributeKind::Value, std::move(*own)}, &saved});
  }
}

/// Whether training wrote it.
bool isParameterOrBuffer(const Attribute &attribute) {
  return attribute.kind == AttributeKind::Parameter || attribute.kind == AttributeKind::Buffer;
}

} // namespace

llvm::Expected<CheckpointValues> valuesOf(const std::string &path,
                                          std::vector<std::string> &warnings) {
  ReadCheckpoint found = TRY(readCheckpoint(
      path, WhichCheckpoint::NewestGood, [](const auto &, const auto &) -> llvm::Error {
        return llvm::Error::success(); // fillStages() checks what it uses
      }));
  warnings.insert(warnings.end(), found.opened.warnings.begin(), found.opened.warnings.end());
  return std::move(found.values);
}

llvm::Error fillStages(Relinked &stages, const CheckpointValues &values) {
  std::vector<std::string> all;
  std::vector<std::pair<size_t, const SavedValue *>> places; // by attribute
  Model &model = stages.model;
  for (size_t i = 0; i < model.attributes.size(); ++i) {
    const Attribute &attribute = model.attributes[i];
    const std::vector<std::string> names = attribute.allNames();
    all.insert(all.end(), names.begin(), names.end());
    const SavedValue *saved = values.findAny(names);
    const bool isTensor = attribute.value.isTensor() && attribute.value.toTensor().defined();
    if (!saved && isParameterOrBuffer(attribute) && isTensor)
      return notInCheckpoint(attribute.name);
    if (!saved)
      continue;
    if (attribute.kind == AttributeKind::Parameter && isTensor)
      TRY(checkFits(*saved, attribute.value.toTensor()));
    if (attribute.value.isNone() != saved->value.isNone())
      return makeError(ExitCode::Usage,
                       fmt::format("checkpoint: {}: expected a value of the kind that the artifact "
                                   "has, {}, got {}",
                                   attribute.name, attribute.value.type()->annotation_str(),
                                   saved->value.type()->annotation_str()),
                       "put the checkpoint into the author's file: --into MODEL.pt");
    places.emplace_back(i, saved);
  }
  TRY(checkNoneIsLeft(values, all));
  return guardTorchError(ExitCode::BadArtifact, kDoing, [&]() -> llvm::Error {
    c10::AutoGradMode noGrad(false);
    for (const auto &[number, saved] : places) {
      c10::IValue &value = model.attributes[number].value;
      const size_t input = model.signature.inputs.size() + number;
      llvm::Expected<c10::IValue> next =
          restored(saved->value, value, model.graph->inputs()[input]->type());
      if (!next)
        return withContext(next.takeError(),
                           fmt::format("{}: {}", kDoing, model.attributes[number].name));
      value = std::move(*next);
    }
    stages.lines = canonicalLines(stages.model);
    for (const Attribute &attribute : stages.model.attributes) {
      const std::string content = contentText(attribute.value);
      stages.weights[attribute.name] = attributeLine(attribute.name, attribute.kind, content);
    }
    return llvm::Error::success();
  });
}

llvm::Error fillModel(torch::jit::Module &module, const CheckpointValues &values,
                      MergeIntoReport &report) {
  std::vector<std::string> objects, all;
  std::vector<Place> places;
  for (ModelValue &each : modelState(module, objects)) {
    all.insert(all.end(), each.names.begin(), each.names.end());
    const SavedValue *saved = values.findAny(each.names);
    if (!saved) {
      if (each.kind != AttributeKind::Value)
        report.kept.push_back(each.names.front());
      continue;
    }
    if (each.kind == AttributeKind::Parameter)
      TRY(checkFits(*saved, each.value.toTensor()));
    places.emplace_back(std::move(each), saved);
  }
  addPartsOfObjects(module, values, all, places);
  const std::string ofLoss = nameOfJoinedLoss(module) + ".";
  for (const SavedValue &saved : values.all())
    if (saved.about.kind != AttributeKind::Value && startsWith(saved.about.name, ofLoss)) {
      report.ofLoss.push_back(saved.about.name);
      all.push_back(saved.about.name); // expected: the file has no place for it
    }
  TRY(checkNoneIsLeft(values, all));
  return guardTorchError(ExitCode::BadArtifact, kDoing, [&]() -> llvm::Error {
    c10::AutoGradMode noGrad(false);
    for (const auto &[each, saved] : places) {
      report.tensors += each.kind != AttributeKind::Value;
      const llvm::StringRef name = each.names.front();
      llvm::Expected<c10::IValue> value =
          restored(saved->value, each.value, typeOfAttribute(module, name.str()));
      if (!value)
        return withContext(value.takeError(), fmt::format("{}: {}", kDoing, name.str()));
      if (!value->is(each.value))
        for (const std::string &other : each.names)
          setAttribute(module, other, *value);
    }
    return llvm::Error::success();
  });
}

} // namespace pipec
