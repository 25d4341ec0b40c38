// The schedules that benchmarks of trainings compare.
#pragma once

#include "llvm/ADT/ArrayRef.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace pipec::bench {

struct TrainingSchedule {
  std::string name;
  size_t stagesPerRank = 1;
};

/// All schedules of a training that pipec can generate, with the fewest stages per rank that each
/// accepts: 1f1b, to which the others are compared, then the table's order. Prints a line to stderr
/// for each that does not accept these ranks and numbers of micro-batches.
std::vector<TrainingSchedule> trainingSchedules(size_t ranks, llvm::ArrayRef<int64_t> microBatches);

} // namespace pipec::bench
