// ZB-V ("Pipeline Parallelism with Controllable Memory", Qi et al., 2024), the hand-made order: two
// chunks per rank in a V, so that the last stage stands beside the first and a micro-batch's
// backward begins on the rank where its forward ended. Memory of 1F1B, no idle time between a
// rank's first and last action when F, I and W cost the same.
#include "ir/schedule/generators/GeneratorFunctions.h"
#include "ir/schedule/generators/RankWord.h"
#include "llvm/ADT/STLExtras.h"

namespace pipec {

namespace {

llvm::Expected<Schedule> makeZeroBubbleV(const ScheduleRequest &request) {
  const auto p = static_cast<int64_t>(request.ranks);
  const int64_t n = std::max(request.microBatches, 2 * p - 1); // surplus micro-batches are dropped
                                                               // below
  Schedule schedule;
  for (int64_t r = 0; r < p; ++r) {
    RankWord rank({static_cast<size_t>(r), static_cast<size_t>(2 * p - 1 - r)});
    rank.repeat("F0", 2 * (p - r) - 1).repeat("F1F0", r).repeat("F1I1W1", p - r);
    while (rank.count('F', 1) < rank.count('F', 0) || rank.count('F', 0) < n)
      rank.repeat("F0", rank.count('F', 0) < n ? 1 : 0).repeat("I0W0F1I1W1", 1);
    rank.repeat("I0I1", r).repeat("I0W0", p - r);
    for (char chunk : {'1', '0'}) {
      const size_t c = static_cast<size_t>(chunk - '0');
      rank.repeat(std::string{'W', chunk}, rank.count('I', c) - rank.count('W', c));
    }
    std::vector<Action> &actions = schedule.ranks.emplace_back(rank.take());
    llvm::erase_if(actions, [&](const Action &a) { return a.microBatch >= request.microBatches; });
  }
  return schedule;
}

} // namespace

Generator zeroBubbleVGenerator() {
  return {.name = "zb-v",
          .summary = "zero bubble by hand on a V of two stages per rank",
          .source = "Pipeline Parallelism with Controllable Memory, Qi et al., 2024",
          .placement = Placement::V,
          .leastChunks = 2,
          .mostChunks = 2,
          .make = makeZeroBubbleV};
}

} // namespace pipec
