#include "compiler/Merge.h"

#include "compiler/CheckpointWeights.h"
#include "compiler/Import.h"
#include "compiler/MergeOutput.h"
#include "compiler/emit/StageEmitter.h"
#include "ir/Refusals.h"
#include "ir/TensorKey.h"
#include "ir/TorchError.h"
#include "ir/artifact/ArtifactReader.h"
#include "ir/artifact/Discharge.h"
#include "ir/artifact/LineDifference.h"
#include "ir/artifact/Relink.h"
#include "ir/support/CannotWrite.h"
#include "ir/support/Try.h"
#include "ir/text/CanonicalText.h"
#include "passes/PassManager.h"
#include "passes/analysis/TopLevel.h"

#include <filesystem>
#include <map>

namespace pipec {

namespace {

namespace fs = std::filesystem;

/// The stages, after they were proved against the plan.
llvm::Expected<Relinked> linked(const Artifact &artifact) {
  llvm::Expected<Relinked> stages = relink(artifact.directory, artifact.plan);
  if (!stages)
    return withContext(stages.takeError(), artifact.directory);
  if (stages->digest != artifact.plan.sourceDigest)
    return failf(ExitCode::BadArtifact,
                 "{}: the stages linked together are not the source: expected {}, got {}",
                 artifact.directory, artifact.plan.sourceDigest, stages->digest);
  if (llvm::Error error = discharge(artifact.plan, stages->stages))
    return withContext(std::move(error), artifact.directory);
  return stages;
}

/// The type of an argument that no stage reads comes from the plan's text, which cannot define a
/// class.
llvm::Error checkArgumentTypes(const Model &model) {
  std::vector<c10::TypePtr> types = argumentTypes(model);
  for (size_t i = 0; i < types.size(); ++i)
    if (const InputSpec &input = model.signature.inputs[i];
        types[i]->kind() == c10::TypeKind::AnyType && input.type != "Any")
      return refuseWith(Refusal::TypeOfModel, "argument " + input.name + ", which no stage reads",
                        input.type);
  return llvm::Error::success();
}

/// Weights of a tie that every stage has a copy of become one tensor again: of several copies, one
/// that shares memory with other attributes of the tie. Attributes that overlap without being equal
/// share memory if some stage has both. Otherwise they stay separate, which is safe because no
/// stage writes them: written memory lives in one stage.
void shareTies(Model &model, const Plan &plan) {
  for (const Tie &tie : plan.ties) {
    std::vector<Attribute *> tied;
    std::vector<at::Tensor> tensors;
    for (Attribute &attribute : model.attributes)
      if (llvm::is_contained(tie.names, attribute.name)) {
        tied.push_back(&attribute);
        tensors.push_back(attribute.value.isTensor() ? attribute.value.toTensor() : at::Tensor());
      }
    const std::vector<int64_t> memory = storageIds(tensors);
    std::map<std::string, std::pair<ptrdiff_t, c10::IValue>> byContent; // sharers, the copy
    for (size_t i = 0; i < tied.size(); ++i) {
      auto &[sharers, copy] = byContent[contentText(tied[i]->value, Detail::Exact)];
      if (const ptrdiff_t count = llvm::count(memory, memory[i]); count > sharers) {
        sharers = count;
        copy = tied[i]->value;
      }
    }
    for (Attribute *attribute : tied)
      attribute->value = byContent.at(contentText(attribute->value, Detail::Exact)).second;
  }
}

/// Artifacts before format 1.1 lack the fields of a NamedTuple, so it becomes a tuple.
void forgetNamesWithoutFields(OutputTree &tree) {
  if (tree.kind == OutputTree::Kind::Tuple && tree.keys.empty())
    tree.typeName.clear();
  for (OutputTree &child : tree.children)
    forgetNamesWithoutFields(child);
}

OutputTree treeToCompare(const Signature &signature) {
  OutputTree outputs = signature.outputs;
  forgetNamesWithoutFields(outputs);
  return outputs;
}

/// Only the tuple around the result is dead.
llvm::Expected<bool> splitOnce(AnyModel &model, const PassManagerOptions &options) {
  PassManager manager(options);
  manager.add({"split-outputs", "dead-code"});
  return manager.run(model);
}

/// Reads the file back as a flat graph. Simplification would hide differences, so it is left out. A
/// list in a tuple can be split only after the tuple is gone, so the outputs are split until their
/// tree is the source's, or nothing changes.
llvm::Expected<Model> readBack(const std::string &path, const Signature &expected) {
  AnyModel model = TRY(importModel(path, expected.method));
  PassManagerOptions options;
  options.checkHonesty = false;
  PassManager manager(options);
  manager.add({"lower-attributes"});
  TRY(manager.run(model).takeError());
  OutputTree outputs = treeToCompare(expected);
  for (bool more = true; more && !(std::get<Model>(model).signature.outputs == outputs);) {
    bool changed = TRY(splitOnce(model, options));
    more = changed;
  }
  return std::get<Model>(std::move(model));
}

llvm::Error mergedDiffers(const std::string &what) {
  return makeError(ExitCode::Internal, "the merged model as read back: " + what);
}

llvm::Error compareMergedWeights(const Relinked &stages, const Model &merged) {
  std::map<std::string, std::string> actual, objects;
  for (const Attribute &attribute : merged.attributes) {
    const std::string content = contentText(attribute.value);
    actual[attribute.name] = attributeLine(attribute.name, attribute.kind, content);
    if (hasExactText(attribute.value))
      objects[attribute.name] = contentText(attribute.value, Detail::Exact);
    for (const std::string &name : attribute.otherNames) // other names of an attribute that the
                                                         // graph no longer reads
      actual[name] = attributeLine(name, attribute.kind, content);
  }
  for (const Attribute &attribute : stages.model.attributes) {
    auto found = actual.find(attribute.name);
    if (found == actual.end() && !attribute.value.isTensor())
      continue; // not read: lower-attributes leaves it out
    if (found == actual.end() || found->second != stages.weights.at(attribute.name))
      return mergedDiffers("weight " + attribute.name + " is not the stages'");
    auto object = stages.objects.find(attribute.name);
    if (object != stages.objects.end() && objects[attribute.name] != object->second)
      return mergedDiffers("object " + attribute.name + " is not the stages'");
  }
  return llvm::Error::success();
}

/// Compares arguments and result as a caller sees them. Class types have another name in every
/// file.
llvm::Error compareSignatures(const Signature &expected, const Signature &actual) {
  if (expected.inputs.size() != actual.inputs.size())
    return mergedDiffers(
        fmt::format("expected {} arguments, got {}", expected.inputs.size(), actual.inputs.size()));
  for (size_t i = 0; i < expected.inputs.size(); ++i) {
    const InputSpec &a = expected.inputs[i], &b = actual.inputs[i];
    if (a.name != b.name || a.defaultValue != b.defaultValue)
      return mergedDiffers(
          fmt::format("argument {}: expected {} with its default, got {}", i, a.name, b.name));
  }
  if (!(treeToCompare(expected) == actual.outputs))
    return mergedDiffers("the result is structured differently");
  return llvm::Error::success();
}

llvm::Error compareWithStages(const std::string &path, const Relinked &stages) {
  llvm::Expected<Model> model = readBack(path, stages.model.signature);
  if (!model)
    return mergedDiffers(describe(model.takeError()).message);
  if (std::string difference = firstDifference(stages.lines, canonicalLines(*model));
      !difference.empty())
    return mergedDiffers(difference);
  TRY(compareMergedWeights(stages, *model));
  return compareSignatures(stages.model.signature, model->signature);
}

} // namespace

llvm::Expected<MergeReport> mergeArtifact(const std::string &directory, const std::string &output,
                                          bool force, const std::string &checkpoint) {
  TRY(checkMergeOutput(output, force));
  Artifact artifact = TRY(openArtifact(directory));
  Relinked stages = TRY(linked(artifact));
  if (!checkpoint.empty()) {
    const CheckpointValues values = TRY(valuesOf(checkpoint, artifact.warnings));
    if (llvm::Error error = fillStages(stages, values))
      return withContext(std::move(error), directory);
  }
  TRY(checkArgumentTypes(stages.model));
  TRY(guardTorchVoid(ExitCode::Internal, "sharing tied weights",
                     [&] { shareTies(stages.model, artifact.plan); }));
  NewFile file(output);
  if (file.error())
    return cannotWrite(output, file.error());
  TRY(emitModel(stages.model, file));
  if (file.error())
    return cannotWrite(output, file.error());
  TRY(guardTorchError(ExitCode::Internal, "reading the merged model back",
                      [&] { return compareWithStages(file.path(), stages); }));
  MergeReport report;
  report.operators = topLevelOf(stages.model).operators.size();
  report.weights = stages.model.attributes.size();
  std::error_code ignored;
  report.bytes = static_cast<int64_t>(fs::file_size(file.path(), ignored));
  report.warnings = artifact.warnings;
  report.plan = std::move(artifact.plan);
  TRY(publishMerged(file, output, force));
  return report;
}

} // namespace pipec
