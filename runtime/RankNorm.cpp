// The numbers of a step: the norm of all gradients, the clipping by it, and whether the step
// counts.
#include "ir/TorchError.h"
#include "ir/support/Llvm.h"
#include "ir/support/Try.h"
#include "runtime/RankTraining.h"
#include "runtime/training/GradientNorm.h"
#include "runtime/training/LossCount.h"
#include "runtime/training/RootScale.h"
#include "runtime/training/SparseGradients.h"

#include <fmt/format.h>

#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>
#include <c10/core/GradMode.h>

#include <utility>

namespace pipec {

llvm::Expected<double> RankTraining::totalCount(const Step &step) {
  const auto ended = atScopeEnd([&] { forgetMessages(); });
  TRY(addCounts(known_[*plan_.training->count], message_));
  TRY(gather(step));
  return sumOfCounts(messages_);
}

/// Adds two values each to message_: the number of the parameter and its norm, or that of the
/// micro-batch and its loss; and to gradients_ those that are clipped. Divides them by `count` if
/// there is one.
llvm::Error RankTraining::collectNumbers(const TrainingData &data, std::optional<double> count) {
  const TrainingPlan &training = *plan_.training;
  auto note = [&](int64_t number, at::Tensor value) {
    message_.emplace_back(number);
    message_.emplace_back(std::move(value));
  };
  for (size_t p = 0; p < training.parameters.size(); ++p)
    // Each copy of a weight is clipped; the norm counts one, that of the first stage.
    for (const PortRef &use : training.parameters[p].uses) {
      if (!isMine(use.stage) || plan_.stages[use.stage].attributes[use.port].channel)
        continue;
      const at::Tensor &gradient = stages_[use.stage]->gradient(use.port);
      if (!gradient.defined())
        continue;
      TRY(checkSparse(gradient, data.needsDense.empty() ? "" : data.needsDense[p],
                      training.parameters[p].name));
      device().bring(gradient, device());
      if (count)
        divideGradients(gradient, *count);
      gradients_.push_back(gradient);
      if (use == training.owner(p, plan_.stages))
        note(static_cast<int64_t>(p), gradientNorm(gradient));
    }
  for (const auto &[microBatch, value] : known_[training.loss]) {
    const at::Tensor &loss = value.toTensor();
    device().bring(loss, device());
    // To look at it, the host would wait for a device.
    if (device().hasStreams() || !isFiniteNumber(loss))
      note(-1 - microBatch, loss.detach());
  }
  return llvm::Error::success();
}

llvm::Error RankTraining::norm(const Step &step, std::vector<std::vector<c10::IValue>> &leaves,
                               TrainingData &data) {
  c10::AutoGradMode noGrad(false);
  std::unique_ptr<Device::Scope> stream = device().enter(main().stream());
  for (size_t s = 0; s < plan_.stages.size(); ++s)
    if (isMine(s))
      device().waitFor(stages_[s]->ready());
  for (size_t s = 0; s < plan_.stages.size(); ++s)
    noteLeaves(s, leaves);
  std::optional<double> count; // the host waits for it: a division by zero must not come as late
  if (plan_.training->count) {
    double total = TRY(totalCount(step));
    if (!isUsableCount(total) && !data.skipsNan)
      return unusableCount(total);
    count = total;
  }
  isCounted_ = !count || isUsableCount(*count);
  const auto ended = atScopeEnd([&] {
    forgetMessages();
    gradients_.clear();
  });
  TRY(guardTorchError(ExitCode::Other, "the norm of the gradients", [&]() -> llvm::Error {
    copyLosses(leaves);
    sumTransmitted();
    return collectNumbers(data, isCounted_ ? count : std::nullopt);
  }));
  forgetLeaves();
  TRY(gather(step));
  return guardTorchError(ExitCode::Other, "the norm of the gradients", [&]() -> llvm::Error {
    for (const std::vector<c10::IValue> &found : messages_)
      for (size_t i = 0; i + 1 < found.size(); i += 2)
        numbers_[found[i].toInt()] = found[i + 1].toTensor();
    isDecided_ = false;
    if (device().hasStreams()) {
      total_ = totalNorm(numbers_.norms());
      isFinite_ = allFinite(numbers_);
    } else if (llvm::Error failed = decide(data)) {
      return failed;
    }
    if (!skips_ && data.clipNorm > 0)
      clip(data);
    if (rank_ == 0) {
      data.count = count;
      data.gradientNorm = total_;
    }
    return llvm::Error::success();
  });
}

void RankTraining::clip(const TrainingData &data) {
  if (data.keepsGradients)
    for (size_t s = 0; s < stages_.size(); ++s)
      if (isMine(s))
        stages_[s]->keepGradients();
  // Gradients of a step that will be skipped stay as they are.
  const at::Tensor factor = clipFactor(total_, data.clipNorm);
  clipGradients(gradients_,
                isFinite_.defined() ? at::where(isFinite_, factor, at::ones_like(factor)) : factor);
}

/// Whether the step counts. On a device with streams the host waits here for all backwards: once in
/// a step, and after the norm and the clipping were issued.
llvm::Error RankTraining::decide(TrainingData &data) {
  if (isDecided_)
    return llvm::Error::success();
  isDecided_ = true;
  skips_ = !isCounted_;
  if (rank_ == 0)
    data.skipped = skips_;
  if (isFinite_.defined() && isFinite_.item<bool>())
    return llvm::Error::success();
  const TrainingPlan &training = *plan_.training;
  const StepNorm judged = TRY(judge(
      numbers_, data.skipsNan,
      [&](size_t parameter) {
        return fmt::format("parameter {} of stage {}", training.parameters[parameter].name,
                           training.owner(parameter, plan_.stages).stage);
      },
      stageOfLeaf(plan_, training.loss), data.mayDiverge));
  total_ = judged.total;
  skips_ = skips_ || !judged.isFinite;
  if (rank_ == 0)
    data.skipped = skips_;
  return llvm::Error::success();
}

llvm::Error RankTraining::end(TrainingData &data) {
  if (isDecided_)
    return llvm::Error::success();
  return guardTorchError(ExitCode::Other, "the norm of the gradients", [&] {
    std::unique_ptr<Device::Scope> stream = device().enter(main().stream());
    return decide(data);
  });
}

} // namespace pipec
