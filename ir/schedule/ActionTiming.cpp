#include "ir/schedule/ActionTiming.h"

#include "ir/support/Check.h"

namespace pipec {

Timing actionTiming(const Schedule &schedule, const Program &program, const SimulatedRun &run) {
  Timing timing = run;
  timing.ranks.assign(schedule.ranks.size(), {});
  for (size_t r = 0; r < schedule.ranks.size(); ++r) {
    size_t op = 0;
    Timing::Interval last;
    for (const Action &action : schedule.ranks[r]) {
      if (!isCompute(action.kind)) {
        timing.ranks[r].push_back({last.end, last.end});
        continue;
      }
      auto isIt = [&](const Op &candidate) {
        return candidate.kind <= OpKind::Recompute && candidate.stage == action.stage &&
               candidate.microBatch == action.microBatch &&
               (candidate.kind == OpKind::Recompute) == (action.kind == ActionKind::Recompute);
      };
      while (op < program.ranks[r].size() && !isIt(program.ranks[r][op]))
        ++op;
      PIPEC_ASSERT(op < program.ranks[r].size(), "the program is lowered from this schedule");
      last = run.ranks[r][op++];
      timing.ranks[r].push_back(last);
    }
  }
  return timing;
}

} // namespace pipec
