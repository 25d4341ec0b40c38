// Messages about a model that accepts only one batch size.
#pragma once

#include "ir/batch/ModelRunner.h"
#include "ir/plan/Plan.h"

#include <ATen/core/ivalue.h>

namespace pipec {

/// A help text: how to save a model so that it accepts other batch sizes.
std::string howToFreeBatch();

/// The batch size that the model's constants fix is usually a number in its error message for
/// `inputs`. If the model runs with that size, `error` gets the size and the fix; otherwise `error`
/// is returned unchanged. Nothing runs unless `error` is a failure of Usage. `batchDims` are the
/// given dimensions, empty if pipec has to find the dimension.
llvm::Error explainFixedBatch(llvm::Error error, Signature signature,
                              llvm::ArrayRef<c10::IValue> inputs,
                              const std::vector<bool> &batchDimGiven, ModelRunner run);

} // namespace pipec
