#include "ir/checkpoint/Restore.h"

#include "ir/batch/TensorSpecs.h"
#include "ir/values/BindArguments.h"
#include "ir/values/MapTensors.h"

#include <fmt/ranges.h>

#include <ATen/ops/view_as_real.h>
#include <c10/core/GradMode.h>

#include <set>

namespace pipec {

namespace {

std::string shownTensor(const at::Tensor &tensor) {
  return fmt::format("{}[{}]", specOf(tensor).dtype,
                     fmt::join(tensor.sizes().begin(), tensor.sizes().end(), ", "));
}

/// Also of a sparse tensor.
bool fits(const at::Tensor &tensor, const at::Tensor &parameter) {
  return tensor.scalar_type() == parameter.scalar_type() && tensor.sizes() == parameter.sizes();
}

} // namespace

llvm::Error checkFits(const SavedValue &saved, const at::Tensor &model) {
  const std::string got =
      saved.value.isTensor() ? shownTensor(saved.value.toTensor()) : "a " + saved.value.tagKind();
  const std::string expected = shownTensor(model);
  if (got == expected)
    return llvm::Error::success();
  return makeError(ExitCode::Usage,
                   fmt::format("checkpoint: {}: expected {}, as in the model, got {}",
                               saved.about.name, expected, got),
                   "pass the model that the checkpoint was trained from");
}

llvm::Error checkStateFits(const SavedValue &saved, const at::Tensor &parameter) {
  const at::Tensor real = parameter.is_complex() ? at::view_as_real(parameter) : parameter;
  for (const auto &[key, value] : saved.optimizer) {
    if (value.isInt() && value.toInt() >= 0)
      continue;
    if (value.isTensor() && (fits(value.toTensor(), parameter) || fits(value.toTensor(), real)))
      continue;
    return failf(ExitCode::BadArtifact, "checkpoint: {}: {} of the optimizer: expected {}, got {}",
                 saved.about.name, key, shownTensor(parameter),
                 value.isTensor() ? shownTensor(value.toTensor()) : "a " + value.tagKind());
  }
  return llvm::Error::success();
}

llvm::Error checkDeclared(const SavedValue &saved, const c10::TypePtr &type) {
  if (!type || asDeclared(saved.value, type))
    return llvm::Error::success();
  return failf(ExitCode::BadArtifact, "checkpoint: {}: expected a value of type {}, got a {}",
               saved.about.name, type->annotation_str(), saved.value.tagKind());
}

llvm::Error checkNoneIsLeft(const CheckpointValues &values, const std::vector<std::string> &names) {
  const std::set<std::string> known(names.begin(), names.end());
  for (const SavedValue &saved : values.all()) {
    const CheckpointEntry &about = saved.about;
    if (about.kind == AttributeKind::Parameter && about.used && !known.count(about.name) &&
        llvm::none_of(about.otherNames,
                      [&](const std::string &other) { return known.count(other) != 0; }))
      return makeError(
          ExitCode::Usage,
          fmt::format("checkpoint: parameter {}: expected it in the model, got none", about.name),
          "pass the model that the checkpoint was trained from");
  }
  return llvm::Error::success();
}

llvm::Error missingInCheckpoint(const std::string &name) {
  return makeError(ExitCode::Usage, name + ": expected it in the checkpoint, got none",
                   "pass the model that the checkpoint was trained from");
}

llvm::Expected<c10::IValue> restored(const c10::IValue &saved, const c10::IValue &current,
                                     const c10::TypePtr &type) {
  c10::AutoGradMode noGrad(false);
  if (saved.isTensor() && current.isTensor() && current.toTensor().defined()) {
    const at::Tensor &from = saved.toTensor();
    at::Tensor to = current.toTensor();
    if (from.scalar_type() == to.scalar_type() && from.sizes() == to.sizes() &&
        (from.strides() == to.strides() || to.requires_grad())) {
      to.copy_(from);
      return current;
    }
  }
  at::Device device(at::kCPU);
  forEachTensor(current, [&](const at::Tensor &each) {
    if (each.defined())
      device = each.device();
  });
  auto copied = [&](const at::Tensor &each) {
    return each.defined() && each.device() != device ? each.to(device) : each.clone();
  };
  std::optional<c10::IValue> value =
      type ? asDeclared(mapTensors(saved, copied), type) : std::nullopt;
  if (!value)
    return failf(ExitCode::BadArtifact, "expected a value of type {}, got a {}",
                 type ? type->annotation_str() : "unknown", saved.tagKind());
  return *value;
}

} // namespace pipec
