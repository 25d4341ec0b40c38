// From a schedule to the program that its ranks run.
#pragma once

#include "ir/schedule/Program.h"
#include "ir/schedule/Schedule.h"

namespace pipec {

/// Lowers a schedule to a program. A value that several stages of one other rank read is sent to
/// that rank once. Its gradient goes from the last consumer stage to the one before, and so on to
/// the producer; each adds its own. Channels inside a rank need no op. A program of an inference
/// has no weight channels: weights are delivered once at load time. In training they are sent at
/// the start of the run (the runtime sends one that has not changed as an empty message), and their
/// gradients return after the last backward of the receiving rank. Reductions, norm and
/// optimizer follow, each as soon as its gradients are final. Sends and receives in the
/// schedule are ignored. A lane holds the messages of `lookAhead` micro-batches, or of more if the
/// schedule would block otherwise. Errors: Usage if the schedule does not fit the plan (stage on
/// two ranks, missing or repeated action), naming the first problem.
llvm::Expected<Program> lower(const Schedule &schedule, const Plan &plan, const RunShape &shape,
                              size_t lookAhead = 0);

} // namespace pipec
