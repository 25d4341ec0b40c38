// What each operator of the top level costs, from one run on example inputs.
#pragma once

#include "compiler/cost/FlopCounter.h"
#include "ir/Model.h"

namespace pipec {

/// What one operator of the top level does on the example.
struct OperatorWork {
  Arithmetic arithmetic;
  int64_t bytesMoved = 0, outputBytes = 0;
  struct Walk {
    Arithmetic arithmetic;
    int64_t bytesMoved = 0;
  };
  Walk inputGrad, weightGrad;
  int64_t keptBytes = 0; // for the backward, where no operator before kept it
};

struct OperatorRun;

/// Of the tensors that an operator made.
int64_t outputBytesOf(const OperatorRun &run);

/// Runs the flat graph once, operator by operator: the flops of matrix products, convolutions,
/// attention and recurrent layers that really ran (inside blocks too), and the bytes that operators
/// move. `backward`: each runs backward, too, and what that does is counted the same way: flops as
/// FlopCounter has them; bytes, where the forward moves any, are the gradient that comes, what
/// autograd has kept of inputs and results (for input gradients of weights, too), and the gradients
/// that are made. What is kept is what autograd really holds on to. Errors: as estimateCosts.
llvm::Expected<std::vector<OperatorWork>> countWork(Model &model, std::vector<c10::IValue> inputs,
                                                    bool backward = false);

/// Runs the flat graph once, operator by operator, and fills model.nodeCosts: the flops of matrix
/// products, convolutions, attention and recurrent layers that really ran (inside blocks too) plus
/// the bytes that memory-bound operators move, weighted by what a CPU core does in that time.
/// Deterministic: nothing is timed. `inputs`: one value per argument of the method. Errors: Other
/// with LibTorch's message, naming the operator that failed.
llvm::Error estimateCosts(Model &model, std::vector<c10::IValue> inputs);

} // namespace pipec
