// Programs as tables with sends and receives that PyTorch's _PipelineScheduleRuntime runs
// unchanged.
#pragma once

#include "ir/schedule/Program.h"

namespace pipec {

/// Writes replica 0 of a program in PyTorch's form (compute_comms): SEND_F and RECV_F once per
/// stage and micro-batch for any number of channels, SEND_B and RECV_B for gradients, REDUCE_GRAD
/// after the last backward of a stage (PyTorch scales its gradients there). Posts, tie sums, norm
/// and optimizer are left out, because PyTorch does them elsewhere. Errors: Usage
/// naming the channel that does not go to the next stage or transmits a weight, or the stage that
/// is recomputed.
llvm::Expected<Schedule> toTorchComms(const Program &program, const Plan &plan);

} // namespace pipec
