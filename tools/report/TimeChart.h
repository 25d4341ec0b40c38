// A simulated schedule drawn as text: one row per rank, time to the right.
#pragma once

#include "ir/schedule/Timing.h"

namespace pipec {

struct TimeChartOptions {
  size_t width = 100;  // columns of a block
  bool colour = false; // escape codes: forward, backward, input and weight gradients apart
  const char *inFull = "--svg FILE draws every name"; // said where names are shortened
};

///   rank 0  0F0 0F1 ........ 0B0====
///   rank 1  ... 1F0 1F1 1B0====
/// An action is its name and as many columns as it takes time, a rank without work has dots. Where
/// a name does not fit, kind and micro-batch stand for it (F3), else the kind alone (F), and a line
/// below says so. In blocks where the time does not fit in a row; a name may stand out of its
/// block. `timing` is of this schedule.
std::string drawTimeChart(const Schedule &schedule, const Timing &timing,
                          const TimeChartOptions &options);

} // namespace pipec
