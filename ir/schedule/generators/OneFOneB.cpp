// 1F1B with a flush (PipeDream-Flush, DAPPLE's early backward, Megatron's non-interleaved
// schedule), its eager form, and GPipe.
//
//   p = 4, m = 4, F = B:            a rank s first runs w forwards, then alternates
//   rank 0  F0 F1 F2 F3 .  .  .  B0 .  B1 .  B2 .  B3
//   rank 1  .  F0 F1 F2 .  .  B0 F3 B1 .  B2 .  B3
//   rank 3  .  .  .  F0 B0 F1 B1 F2 B2 F3 B3
#include "ir/schedule/generators/GeneratorFunctions.h"
#include "ir/schedule/generators/RankWord.h"

namespace pipec {

namespace {

/// Word of rank s with p ranks and m micro-batches.
template <typename Word> Schedule fromWords(const ScheduleRequest &request, Word word) {
  Schedule schedule;
  for (size_t s = 0; s < request.ranks; ++s) {
    RankWord rank({s});
    word(rank, static_cast<int64_t>(request.ranks), static_cast<int64_t>(s), request.microBatches);
    schedule.ranks.push_back(rank.take());
  }
  return schedule;
}

llvm::Expected<Schedule> makeGPipe(const ScheduleRequest &request) {
  return fromWords(request, [](RankWord &rank, int64_t, int64_t, int64_t m) {
    rank.repeat("F0", m).repeat("B0", m);
  });
}

llvm::Expected<Schedule> makeOneFOneB(const ScheduleRequest &request) {
  return fromWords(request, [](RankWord &rank, int64_t p, int64_t s, int64_t m) {
    const int64_t w = std::min(p - 1 - s, m);
    rank.repeat("F0", w).repeat("F0B0", m - w).repeat("B0", w);
  });
}

// Twice the forwards ahead: hides the latency of transfers and holds twice the activations.
llvm::Expected<Schedule> makeEagerOneFOneB(const ScheduleRequest &request) {
  return fromWords(request, [](RankWord &rank, int64_t p, int64_t s, int64_t m) {
    const int64_t w = std::min(2 * (p - s) - 1, m);
    rank.repeat("F0", w).repeat("B0F0", m - w).repeat("B0", w);
  });
}

} // namespace

Generator gpipeGenerator() {
  return {.name = "gpipe",
          .summary = "all forwards, then all backwards; holds every micro-batch",
          .source = "GPipe, Huang et al., 2019",
          .make = makeGPipe};
}

Generator oneFOneBGenerator() {
  return {.name = "1f1b",
          .summary = "one forward, one backward; holds ranks - rank micro-batches",
          .source = "PipeDream-Flush, Narayanan et al., 2021",
          .make = makeOneFOneB};
}

Generator eagerOneFOneBGenerator() {
  return {.name = "eager-1f1b",
          .summary = "1f1b with twice the forwards ahead, to hide the latency of transfers",
          .source = "DAPPLE, Fan et al., 2021; Alpa, Zheng et al., 2022",
          .make = makeEagerOneFOneB};
}

} // namespace pipec
