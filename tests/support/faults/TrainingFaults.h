// Faults that only a training shows: every forward is as it was. What a row breaks says when.
#pragma once

#include "ir/Model.h"
#include "ir/support/Llvm.h"

#include <ATen/core/Tensor.h>

namespace pipec::faults {

struct TrainingFault {
  llvm::StringLiteral name;
  llvm::StringLiteral what;
  bool (*ofStages)(StagedModel &) = nullptr; // before the files are written
  bool (*ofPlan)(Plan &) = nullptr;          // once the plan says what is trained
  bool (*ofFlags)(Plan &) = nullptr;         // after the comparison of whole backwards
  /// Where the backward of a micro-batch starts, instead of at `scale`.
  at::Tensor (*ofRoots)(const at::Tensor &scale, size_t microBatches) = nullptr;
};

llvm::ArrayRef<TrainingFault> trainingFaults();
/// Null: no fault of trainings has that name.
const TrainingFault *findTrainingFault(llvm::StringRef name);

} // namespace pipec::faults
