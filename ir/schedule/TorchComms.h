// Programs as the tables with sends and receives that PyTorch's _PipelineScheduleRuntime runs as
// they are.
#pragma once

#include "ir/schedule/Program.h"

namespace pipec {

/// Replica 0 of a program as PyTorch writes it (compute_comms): SEND_F and RECV_F once per stage
/// and micro-batch whatever the number of channels, SEND_B and RECV_B for gradients, REDUCE_GRAD
/// after the last backward of a stage (PyTorch scales its gradients there). What PyTorch leaves to
/// others is left out: posts, tie sums, norm, finite check, optimizer. Errors: Usage naming the
/// channel that does not go to the next stage or transmits a weight, or the stage that is
/// recomputed.
llvm::Expected<Schedule> toTorchComms(const Program &program, const Plan &plan);

} // namespace pipec
