// The ops of a pipeline's ranks in one step, with their times. No LibTorch header.
#pragma once

#include "ir/schedule/Program.h"
#include "ir/schedule/Timing.h"

namespace pipec {

/// The ops of one step with their times, in nanoseconds from the moment when the first rank began.
/// On a GPU the times of F, B, I, W and R are those of the device, all others those of the host.
/// The first of them on a rank counts as begun when the host got to it.
struct RunTrace {
  Program program;
  RunShape shape;                                   // of the program
  std::vector<std::vector<Timing::Interval>> ranks; // like Program::ranks
};

} // namespace pipec
