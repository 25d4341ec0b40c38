// Settings of runs for tests.
#pragma once

#include "ir/schedule/Program.h"

namespace pipec {

inline RunShape inferenceOf(int64_t microBatches) {
  RunShape shape;
  shape.microBatches = microBatches;
  return shape;
}

} // namespace pipec
