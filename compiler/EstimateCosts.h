// What each operator of the top level costs, from one run on example inputs.
#pragma once

#include "compiler/FlopCounter.h"
#include "ir/Model.h"

namespace pipec {

/// What one operator of the top level does on the example.
struct OperatorWork {
  Arithmetic arithmetic;
  int64_t bytesMoved = 0, outputBytes = 0;
};

struct OperatorRun;

/// Of the tensors that an operator made.
int64_t outputBytesOf(const OperatorRun &run);

/// Runs the flat graph once, operator by operator: the flops of matrix products, convolutions,
/// attention and recurrent layers that really ran (inside blocks too), and the bytes that operators
/// move. Errors: as estimateCosts.
llvm::Expected<std::vector<OperatorWork>> countWork(Model &model, std::vector<c10::IValue> inputs);

/// Runs the flat graph once, operator by operator, and fills model.nodeCosts: the flops of matrix
/// products, convolutions, attention and recurrent layers that really ran (inside blocks too) plus
/// the bytes that memory-bound operators move, weighted by what a CPU core does in that time.
/// Deterministic: nothing is timed. `inputs`: one value per argument of the method. Errors: Other
/// with LibTorch's message, naming the operator that failed.
llvm::Error estimateCosts(Model &model, std::vector<c10::IValue> inputs);

} // namespace pipec
