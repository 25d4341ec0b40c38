// A pipeline or a reference behind one interface, as pipe-run --train trains it.
#pragma once

#include "ir/values/Arguments.h"
#include "runtime/Pipeline.h"

#include <functional>

namespace pipec {

struct Trainer {
  using Batches = std::vector<std::vector<c10::IValue>>;
  std::function<llvm::Expected<TrainedStep>(const Batches &, StepStats &)> stepOnBatches,
      stepOnMicroBatches;
  std::function<llvm::Error(const std::string &text, int64_t steps)> setLearningRates;
  std::function<llvm::Expected<Evaluation>(const std::vector<c10::IValue> &)> evaluate;
  std::function<c10::IValue()> gradients, state;
  std::function<llvm::Expected<std::vector<std::string>>()> unsavedState;
  std::function<const Signature &()> signature;
  std::function<llvm::Expected<std::vector<c10::IValue>>(const Arguments &)> bind;
  std::function<llvm::Error(const std::string &directory, const CheckpointOptions &options)>
      saveCheckpoint;
  std::function<llvm::Expected<ResumedTraining>(const std::string &path, bool passOverDamaged)>
      resume;
  std::function<int64_t()> peakMemory; // bytes: of the process, or of the device that holds most
  /// As Runner::check.
  std::function<llvm::Error(const std::vector<c10::IValue> &)> check = nullptr;
};

} // namespace pipec
