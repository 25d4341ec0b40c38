// Zero bubble for measured costs within a memory limit: the automatic schedules of "Zero Bubble
// Pipeline Parallelism" (Qi et al., 2023) for one stage per rank and of "Pipeline Parallelism with
// Controllable Memory" (2024) for the V, in our own construction: all ranks are played forward in
// time under many policies, and the best order within the limit wins. The orders made by hand take
// part.
#include "ir/schedule/generators/GeneratorFunctions.h"
#include "ir/schedule/generators/Search.h"
#include "ir/support/Try.h"

namespace pipec {

namespace {

llvm::Expected<Schedule> best(const ScheduleRequest &request, Placement placement,
                              std::initializer_list<Generator> byHand) {
  Search search(request, placement);
  for (const Generator &generator : byHand) {
    Schedule schedule = TRY(generator.make(request));
    TRY(search.consider(std::move(schedule)));
  }
  return search.best();
}

llvm::Expected<Schedule> makeAutoZeroBubble(const ScheduleRequest &request) {
  return best(request, Placement::Loop, {zeroBubbleH1Generator(), zeroBubbleH2Generator()});
}

llvm::Expected<Schedule> makeAutoZeroBubbleV(const ScheduleRequest &request) {
  return best(request, Placement::V, {zeroBubbleVGenerator(), vHalfGenerator(), vMinGenerator()});
}

} // namespace

Generator autoZeroBubbleGenerator() {
  return {.name = "zb-auto",
          .summary = "zero bubble for given costs within a memory limit",
          .source = "after Zero Bubble Pipeline Parallelism, Qi et al., 2023",
          .looksAtCosts = true,
          .make = makeAutoZeroBubble};
}

Generator autoZeroBubbleVGenerator() {
  return {.name = "zb-v-auto",
          .summary = "zero bubble on a V for given costs within a memory limit",
          .source = "after Pipeline Parallelism with Controllable Memory, Qi et al., 2024",
          .placement = Placement::V,
          .leastChunks = 2,
          .mostChunks = 2,
          .looksAtCosts = true,
          .make = makeAutoZeroBubbleV};
}

} // namespace pipec
