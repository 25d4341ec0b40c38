#include "compiler/MergeInto.h"

#include "compiler/CheckpointWeights.h"
#include "compiler/FrontEnd.h"
#include "compiler/MergeOutput.h"
#include "ir/TensorBytes.h"
#include "ir/TensorKey.h"
#include "ir/TorchError.h"
#include "ir/artifact/ArtifactReader.h"
#include "ir/artifact/Relink.h"
#include "ir/artifact/StageFacts.h"
#include "ir/support/CannotWrite.h"
#include "ir/support/Llvm.h"
#include "ir/support/NewFile.h"
#include "ir/support/Try.h"
#include "ir/torchfile/JoinLoss.h"
#include "ir/torchfile/TorchFile.h"
#include "ir/values/ValueFiles.h"

#include <fmt/ranges.h>

#include <ATen/core/Dict.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/export.h>

#include <filesystem>
#include <map>
#include <optional>
#include <set>

namespace pipec {

namespace {

using Weights = std::map<std::string, at::Tensor>;

llvm::Expected<Weights> weightsOfFile(const std::string &path) {
  c10::IValue value = TRY(readValue(path));
  Weights weights;
  bool isState = value.isGenericDict();
  if (isState)
    for (const auto &entry : value.toGenericDict()) {
      isState = isState && entry.key().isString() && entry.value().isTensor();
      if (isState)
        weights.emplace(entry.key().toStringRef(), entry.value().toTensor());
    }
  if (!isState || weights.empty())
    return makeError(ExitCode::Unreadable,
                     path + ": expected a dict of tensors by name, got something else",
                     "pass the file that pipe-run --train --output wrote");
  return weights;
}

/// The stages of an artifact as one model.
llvm::Expected<Model> modelOfArtifact(const std::string &directory) {
  Artifact artifact = TRY(openArtifact(directory));
  llvm::Expected<Relinked> stages = relink(artifact.directory, artifact.plan);
  if (!stages)
    return withContext(stages.takeError(), directory);
  return std::move(stages->model);
}

bool isTensorWeight(const Attribute &attribute) {
  const bool isWeight =
      attribute.kind == AttributeKind::Parameter || attribute.kind == AttributeKind::Buffer;
  return isWeight && attribute.value.isTensor() && attribute.value.toTensor().defined();
}

Weights weightsOf(const Model &model) {
  Weights weights;
  for (const Attribute &attribute : model.attributes)
    if (isTensorWeight(attribute))
      for (const std::string &name : attribute.allNames())
        weights.emplace(name, attribute.value.toTensor());
  return weights;
}

std::string described(const at::Tensor &tensor) {
  return fmt::format("{}[{}]", c10::toString(tensor.scalar_type()),
                     fmt::join(tensor.sizes().begin(), tensor.sizes().end(), ", "));
}

/// Parameters and buffers by name; persistent or not.
Weights tensorsOf(const torch::jit::Module &module) {
  Weights tensors;
  for (const auto &[name, tensor] : module.named_parameters(/*recurse=*/true))
    tensors.emplace(name, tensor);
  for (const auto &[name, tensor] : module.named_buffers(/*recurse=*/true))
    if (tensor.defined())
      tensors.emplace(name, tensor);
  return tensors;
}

/// The tensor of this name if it is neither a parameter nor a buffer of the model.
std::optional<at::Tensor> plainTensorOf(const torch::jit::Module &module, const std::string &name) {
  if (!isPlainTensor(module, name))
    return std::nullopt;
  at::Tensor tensor = attributeAt(module, name)->toTensor();
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

std::set<std::string> plainNamesOf(const Model &model) {
  std::set<std::string> names;
  for (const Attribute &attribute : model.attributes)
    names.insert(attribute.plainNames.begin(), attribute.plainNames.end());
  return names;
}

/// The method of the author's file as operators, as a training runs it. Empty if that is not
/// possible: the file may be for another use.
Model sourceModel(const std::string &path) {
  CompileOptions options;
  options.mode = Mode::Train;
  options.trainingFlag = TrainingFlag::True;
  CompileReport ignored;
  PassDumps dumps;
  Phases phases(ignored);
  PassContext context;
  llvm::Expected<Model> model = FrontEnd(path, options, dumps, phases).flatten(context);
  if (model)
    return std::move(*model);
  llvm::consumeError(model.takeError());
  return Model();
}

/// What a training of `model` changes and a state file does not hold.
std::vector<std::string> unsavedOf(const Model &model, const torch::jit::Module &module,
                                   llvm::function_ref<bool(const std::string &name)> isGiven) {
  const std::string ofLoss = nameOfJoinedLoss(module) + ".";
  std::vector<std::string> names;
  for (const Attribute &attribute : model.attributes) {
    const bool changes = attribute.written || attribute.requiresGrad;
    const bool isPlain = llvm::is_contained(attribute.plainNames, attribute.name) ||
                         isPlainTensor(module, attribute.name) ||
                         attribute.kind == AttributeKind::Value ||
                         attribute.kind == AttributeKind::Object;
    if (changes && isPlain && llvm::none_of(attribute.allNames(), isGiven) &&
        !startsWith(attribute.name, ofLoss))
      names.push_back(attribute.name);
  }
  return names;
}

/// Whatever their strides and gradient flags. False if that is not certain.
bool haveSameValues(const at::Tensor &a, const at::Tensor &b) {
  if (a.layout() != at::kStrided || b.layout() != at::kStrided)
    return haveSameBits(a, b);
  return haveSameBits(a.detach().contiguous(), b.detach().contiguous());
}

/// Errors: Usage if one tensor of the model gets different values for two of its names.
llvm::Error checkTies(const Weights &own, const Weights &weights) {
  std::map<TensorKey, std::string> firstNames;
  for (const auto &[name, tensor] : own) {
    const auto given = weights.find(name);
    if (given == weights.end() || tensor.numel() == 0 || !tensor.has_storage())
      continue;
    // detach(): a buffer may be a parameter's memory without its gradient.
    const auto [known, isNew] = firstNames.try_emplace(keyOf(tensor.detach()), name);
    if (!isNew && !haveSameValues(weights.at(known->second), given->second))
      return makeError(ExitCode::Usage,
                       fmt::format("{} and {}: expected equal values, for the model has one tensor "
                                   "for both, got different ones",
                                   known->second, name),
                       "pass the weights of a training of this model");
  }
  return llvm::Error::success();
}

using Has = llvm::function_ref<bool(const std::string &name)>;

/// The name without a prefix, if `has` knows it so: a module around a model adds a part to every
/// name of it. Empty: it knows none.
std::string withoutPrefix(const std::string &name, Has has) {
  for (size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1))
    if (std::string rest = name.substr(dot + 1); has(rest))
      return rest;
  return "";
}

/// "model." of model.a.weight and a.weight.
std::string prefixOf(const std::string &longer, const std::string &rest) {
  return longer.substr(0, longer.size() - rest.size());
}

/// What to do about a name of `state` that the file `model` does not have.
std::string helpOnName(const std::string &state, const std::string &model, const std::string &name,
                       const Weights &own) {
  const char *compiled = "pass the file that was compiled";
  if (state.empty()) // the weights of the artifact
    return compiled;
  if (const std::string rest =
          withoutPrefix(name, [&](const std::string &each) { return own.count(each) > 0; });
      !rest.empty())
    return fmt::format("{}, or take the prefix {} off the names in {}: {} has {}", compiled,
                       prefixOf(name, rest), state, model, rest);
  for (const auto &[longer, tensor] : own)
    if (endsWith(longer, "." + name))
      return fmt::format("{}, or put the prefix {} before the names in {}: {} has {}", compiled,
                         prefixOf(longer, name), state, model, longer);
  return compiled;
}

/// Every weight that the stages of an artifact use, but for those that may be missing, must be in
/// `source`, a file or a checkpoint. Errors: Usage.
llvm::Error checkComplete(const Model &stages, const std::string &directory,
                          const std::string &source, Has has, Has mayBeMissing) {
  for (const auto &[name, tensor] : weightsOf(stages)) {
    if (has(name) || mayBeMissing(name))
      continue;
    std::string help = "pass what pipe-run --train wrote for this artifact";
    if (const std::string rest = withoutPrefix(name, has); !rest.empty())
      help += fmt::format("; {} has {}, without the prefix {}: if it is for a file with these "
                          "names, pass that file to --into, and leave {} out",
                          source, rest, prefixOf(name, rest), directory);
    return makeError(ExitCode::Usage,
                     fmt::format("{}: expected a value for {}, which {} uses, got none", source,
                                 name, directory),
                     help);
  }
  return llvm::Error::success();
}

/// state: the file that the weights are from; empty: an artifact. plain: names of weights that the
/// artifact knows as neither parameters nor buffers.
llvm::Error replaceAll(torch::jit::Module &module, const std::string &model,
                       const std::string &state, const Weights &weights,
                       const std::set<std::string> &plain, MergeIntoReport &report) {
  Weights own = tensorsOf(module);
  for (const auto &[name, weight] : weights)
    if (std::optional<at::Tensor> tensor = plainTensorOf(module, name))
      own.emplace(name, *tensor);
  const std::string ofLoss = nameOfJoinedLoss(module) + ".";
  for (const auto &[name, weight] : weights) {
    const auto found = own.find(name);
    if (found == own.end() && startsWith(name, ofLoss)) {
      report.ofLoss.push_back(name);
      continue;
    }
    if (found == own.end() && plain.count(name))
      continue; // a tensor in the code of the method
    if (found == own.end())
      return makeError(
          ExitCode::Usage,
          fmt::format("{}: expected a parameter or buffer {}, got none of this name", model, name),
          helpOnName(state, model, name, own));
    if (found->second.sizes() != weight.sizes() ||
        found->second.scalar_type() != weight.scalar_type())
      return makeError(ExitCode::Usage,
                       fmt::format("{}: expected {} for {}, got {}", model,
                                   described(found->second), name, described(weight)),
                       "pass the file that was compiled");
  }
  TRY(checkTies(own, weights));
  return guardTorchVoid(ExitCode::Other, "replacing weights", [&] {
    c10::AutoGradMode noGrad(false);
    std::set<const void *> replaced; // a tensor may have several names
    for (const auto &[name, tensor] : own) {
      const auto found = weights.find(name);
      if (found == weights.end()) {
        report.kept.push_back(name);
        continue;
      }
      at::Tensor target = tensor;
      // Equal ones stay: no value can be written into a tensor that expand() made.
      if (replaced.insert(target.unsafeGetTensorImpl()).second &&
          !haveSameValues(target, found->second))
        target.copy_(found->second);
    }
    report.tensors = replaced.size();
  });
}

} // namespace

namespace {

llvm::Error writeModule(const torch::jit::Module &module, const std::string &output, bool force,
                        MergeIntoReport &report) {
  NewFile file(output);
  if (file.error())
    return cannotWrite(output, file.error());
  TRY(guardTorchVoid(ExitCode::IO, output + ": cannot write", [&] {
    torch::jit::ExportModule(module, [&](const void *bytes, size_t size) {
      file.write(bytes, size);
      return size;
    });
  }));
  std::error_code ignored;
  report.bytes = static_cast<int64_t>(std::filesystem::file_size(file.path(), ignored));
  return publishMerged(file, output, force);
}

} // namespace

llvm::Expected<MergeIntoReport> mergeInto(const std::string &directory, const std::string &state,
                                          const std::string &model, const std::string &output,
                                          bool force) {
  TRY(checkMergeOutput(output, force));
  std::optional<Model> stages;
  if (!directory.empty())
    stages = TRY(modelOfArtifact(directory));
  const std::set<std::string> plain = stages ? plainNamesOf(*stages) : std::set<std::string>();
  const Weights weights = state.empty() ? weightsOf(*stages) : TRY(weightsOfFile(state));
  auto isGiven = [&](const std::string &name) { return weights.count(name) > 0; };
  // Not loadSource: the file would keep what loadSource inserts for a run.
  torch::jit::Module module = TRY(loadMapped(model));
  if (!state.empty() && stages)
    TRY(checkComplete(*stages, directory, state, isGiven, [&](const std::string &name) {
      return plain.count(name) > 0 || plainTensorOf(module, name);
    }));
  MergeIntoReport report;
  TRY(replaceAll(module, model, state, weights, plain, report));
  if (!state.empty())
    report.unsaved = unsavedOf(stages ? *stages : sourceModel(model), module, isGiven);
  TRY(writeModule(module, output, force, report));
  return report;
}

llvm::Expected<MergeIntoReport> mergeCheckpointInto(const std::string &directory,
                                                    const std::string &path,
                                                    const std::string &model,
                                                    const std::string &output, bool force) {
  TRY(checkMergeOutput(output, force));
  MergeIntoReport report;
  CheckpointValues values = TRY(valuesOf(path, report.warnings));
  if (!directory.empty()) {
    const Model stages = TRY(modelOfArtifact(directory));
    TRY(checkComplete(
        stages, directory, path, [&](const std::string &name) { return values.find(name); },
        [](const std::string &) { return false; }));
  }
  torch::jit::Module module = TRY(loadMapped(model));
  if (llvm::Error error = fillModel(module, values, report))
    return withContext(std::move(error), model);
  TRY(writeModule(module, output, force, report));
  return report;
}

} // namespace pipec
