// The types that an example gives the values of a flat graph.
#pragma once

#include "ir/Model.h"

namespace pipec {

/// Runs the graph once, returns its output leaves, and sets dtype, rank, sizes and strides of each
/// top-level tensor to those at the example size. Simplification uses dtype and rank only, and only
/// where dtype and rank of the inputs determine them: a runtime refuses inputs of another dtype or
/// rank. Errors: those of GraphEvaluator.
llvm::Expected<std::vector<c10::IValue>> inferTypes(Model &model, std::vector<c10::IValue> inputs);

/// Removes all these types: stages accept what the model accepts.
void eraseTypes(Model &model);

} // namespace pipec
