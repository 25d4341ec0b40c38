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
                              std::initializer_list<decltype(Generator::make)> byHand) {
  Search search(request, placement);
  for (auto make : byHand) {
    Schedule schedule = TRY(make(request));
    TRY(search.consider(std::move(schedule)));
  }
  return search.best();
}

} // namespace

llvm::Expected<Schedule> makeAutoZeroBubble(const ScheduleRequest &request) {
  return best(request, Placement::Loop, {makeZeroBubbleH1, makeZeroBubbleH2});
}

llvm::Expected<Schedule> makeAutoZeroBubbleV(const ScheduleRequest &request) {
  return best(request, Placement::V, {makeZeroBubbleV, makeVHalf, makeVMin});
}

} // namespace pipec
