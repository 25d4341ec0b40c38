#include "tests/bench/TrainingSchedules.h"

#include "ir/schedule/Generators.h"
#include "ir/schedule/NamedSchedule.h"
#include "ir/support/Error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

namespace pipec::bench {

static bool accepts(const TrainingSchedule &schedule, size_t ranks, int64_t microBatches) {
  llvm::Expected<PlacedSchedule> placed =
      namedSchedule(schedule.name, ranks * schedule.stagesPerRank, ranks, microBatches);
  if (placed)
    return true;
  fmt::print(stderr, "left out: {}\n", describe(placed.takeError()).message);
  return false;
}

std::vector<TrainingSchedule> trainingSchedules(size_t ranks,
                                                llvm::ArrayRef<int64_t> microBatches) {
  std::vector<TrainingSchedule> schedules;
  for (const Generator &generator : generators()) {
    const TrainingSchedule schedule{generator.name.str(), generator.leastChunks};
    if (!generator.inference && std::all_of(microBatches.begin(), microBatches.end(),
                                            [&](auto m) { return accepts(schedule, ranks, m); }))
      schedules.push_back(schedule);
  }
  std::stable_partition(schedules.begin(), schedules.end(),
                        [](const TrainingSchedule &schedule) { return schedule.name == "1f1b"; });
  return schedules;
}

} // namespace pipec::bench
