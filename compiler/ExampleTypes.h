// The types that an example gives the values of a flat graph.
#pragma once

#include "compiler/cost/GraphEvaluator.h"

namespace pipec {

/// Runs the graph once and sets dtype, rank, sizes and strides of each top-level tensor to those at
/// the example size. Simplification uses dtype and rank only, and only where dtype and rank of the
/// inputs determine them: a runtime refuses inputs of another dtype or rank. Errors: those of
/// GraphEvaluator.
llvm::Error inferTypes(Model &model, std::vector<c10::IValue> inputs,
                       Running running = Running::All);

/// Removes all these types: stages accept what the model accepts.
void eraseTypes(Model &model);

} // namespace pipec
