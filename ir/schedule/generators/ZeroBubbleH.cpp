// ZB-H1 and ZB-H2, the hand-made schedules of "Zero Bubble Pipeline Parallelism" (Qi et al., 2023):
// the weight gradient W is put off until a rank would stand idle. H1 keeps 1F1B's memory, H2 fills
// the start too and holds about twice as much.
//
//   m < p (H1) or m < 2p - 1 (H2): the word for enough micro-batches, without those that there are
//   not.
#include "ir/schedule/generators/GeneratorFunctions.h"
#include "ir/schedule/generators/RankWord.h"
#include "llvm/ADT/STLExtras.h"

namespace pipec {

namespace {

template <typename Word>
Schedule fromWords(const ScheduleRequest &request, int64_t leastMicroBatches, Word word) {
  Schedule schedule;
  const int64_t m = std::max(request.microBatches, leastMicroBatches);
  for (size_t s = 0; s < request.ranks; ++s) {
    RankWord rank({s});
    word(rank, static_cast<int64_t>(request.ranks), static_cast<int64_t>(s), m);
    std::vector<Action> &actions = schedule.ranks.emplace_back(rank.take());
    llvm::erase_if(actions, [&](const Action &a) { return a.microBatch >= request.microBatches; });
  }
  return schedule;
}

llvm::Expected<Schedule> makeZeroBubbleH1(const ScheduleRequest &request) {
  return fromWords(request, static_cast<int64_t>(request.ranks),
                   [](RankWord &rank, int64_t p, int64_t s, int64_t m) {
                     rank.repeat("F0", p - s).repeat("I0F0", s).repeat("I0W0F0", m - p);
                     rank.repeat("I0W0", p - s).repeat("W0", s);
                   });
}

llvm::Expected<Schedule> makeZeroBubbleH2(const ScheduleRequest &request) {
  return fromWords(request, 2 * static_cast<int64_t>(request.ranks) - 1,
                   [](RankWord &rank, int64_t p, int64_t s, int64_t m) {
                     const int64_t w = 2 * (p - s) - 1;
                     rank.repeat("F0", w).repeat("I0F0", 2 * s).repeat("I0W0F0", m - 2 * p + 1);
                     rank.repeat("I0W0", w).repeat("W0", 2 * s);
                   });
}

} // namespace

Generator zeroBubbleH1Generator() {
  return {.name = "zb-h1",
          .summary = "zero bubble by hand within 1f1b's memory",
          .source = "Zero Bubble Pipeline Parallelism, Qi et al., 2023",
          .make = makeZeroBubbleH1};
}

Generator zeroBubbleH2Generator() {
  return {.name = "zb-h2",
          .summary = "zero bubble by hand, about twice 1f1b's memory",
          .source = "Zero Bubble Pipeline Parallelism, Qi et al., 2023",
          .make = makeZeroBubbleH2};
}

} // namespace pipec
