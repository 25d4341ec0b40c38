// The cost of each top-level operator, from one run on example inputs.
#pragma once

#include "compiler/cost/FlopCounter.h"
#include "ir/Model.h"
#include "ir/NodeCost.h"

namespace pipec {

/// The work of one top-level operator on the example.
struct OperatorWork {
  Arithmetic arithmetic;
  int64_t bytesMoved = 0, outputBytes = 0;
  struct Walk {
    Arithmetic arithmetic;
    int64_t bytesMoved = 0;
  };
  Walk inputGrad, weightGrad;
  int64_t keptBytes = 0;    // for the backward, unless an earlier operator kept it
  int64_t pendingBytes = 0; // as OperatorRun
};

struct OperatorRun;

/// Bytes of the tensors that an operator made.
int64_t outputBytesOf(const OperatorRun &run);

/// Runs the flat graph once, operator by operator, and counts the flops of matrix products,
/// convolutions, attention and recurrent layers that really ran (inside blocks too), and the bytes
/// that operators move. With `backward` each operator also runs backward, and its work is counted
/// in the same way. Flops are those of FlopCounter. Bytes are counted if the forward moves any: the
/// incoming gradient, the inputs and results that autograd kept (for input gradients also the
/// weights), and the gradients that are made. The kept bytes are those that autograd really holds.
/// Errors: as estimateCosts.
llvm::Expected<std::vector<OperatorWork>> countWork(Model &model, std::vector<c10::IValue> inputs,
                                                    bool backward = false);

/// Runs the flat graph once, operator by operator. Returns per operator the flops of matrix
/// products, convolutions, attention and recurrent layers that really ran (inside blocks too), plus
/// the bytes that memory-bound operators move, converted to the flops of a CPU core in the same
/// time. Deterministic: nothing is timed. `inputs` has one value per argument of the method.
/// Errors: Other with LibTorch's message, naming the operator that failed.
llvm::Expected<std::vector<NodeCost>> estimateCosts(Model &model, std::vector<c10::IValue> inputs);

} // namespace pipec
