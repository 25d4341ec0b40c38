// A simulated schedule drawn as text: one row per rank, time to the right.
#pragma once

#include "ir/schedule/Timing.h"

namespace pipec {

struct TimeChartOptions {
  size_t width = 100;  // columns of a block
  bool colour = false; // escape codes that distinguish forward, backward, input and weight
                       // gradients
  const char *inFull = "--svg FILE draws every name"; // printed if names are shortened
};

///   rank 0  0F0 0F1 ........ 0B0====
///   rank 1  ... 1F0 1F1 1B0====
/// An action is its name padded to its duration; a rank without work has dots. If a name does not
/// fit, it is shortened to kind and micro-batch (F3), or to the kind alone (F), and a line below
/// says so. The chart is split into blocks if the time does not fit in a row; a name may extend
/// beyond its block. `timing` is of this schedule.
std::string drawTimeChart(const Schedule &schedule, const Timing &timing,
                          const TimeChartOptions &options);

} // namespace pipec
