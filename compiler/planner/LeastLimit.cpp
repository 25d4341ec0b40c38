#include "compiler/planner/LeastLimit.h"

#include "compiler/planner/Bounds.h"
#include "ir/plan/Quantities.h"
#include "ir/plan/Words.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace pipec {

namespace {

constexpr int64_t kFirstStep = 100;          // part of the limit, once less of it was enough
constexpr int64_t kLarger = 2, kSmaller = 8; // the next step, after something fits or nothing

} // namespace

MemoryNeed needOf(const TrainingProblem &problem, const TrainingPoint &point,
                  const ScheduleCandidate &candidate, int64_t bytesOfRank) {
  const size_t devices = problem.cluster.devices.size();
  const auto sharing = static_cast<int64_t>((problem.ranks + devices - 1) / devices);
  const bool again = llvm::is_contained(candidate.recompute, true);
  return {bytesOfRank * sharing,
          fmt::format("{}, {}, {}{}", candidate.schedule,
                      counted(point.boundaries.size() + 1, "stage"),
                      counted(static_cast<size_t>(point.microBatches), "micro-batch"),
                      again ? ", with recompute" : "")};
}

llvm::Error nothingFits(const JointRequest &request, const MemoryNeed &need, int64_t limit) {
  auto text = [&](int64_t bytes) {
    return request.memoryText ? request.memoryText(bytes) : exactBytes(bytes);
  };
  return makeError(ExitCode::NoPlan,
                   fmt::format("no pipeline fits: expected at least {} per device ({}), got {}",
                               text(need.bytes), need.what, text(limit)),
                   "more ranks need less memory each");
}

llvm::Expected<JointOutcome>
searchBelow(const JointRequest &request, MemoryNeed known, int64_t limit,
            llvm::function_ref<llvm::Expected<JointOutcome>(const JointRequest &)> search) {
  const Deadline clock(std::min(request.leastSeconds, request.seconds));
  JointRequest less = request;
  auto searchWith = [&](int64_t bytes) {
    less.problem.memoryLimit = bytes;
    less.seconds = std::max(0.0, clock.limit() - clock.elapsed());
    return search(less);
  };
  auto needIn = [&](const JointOutcome &outcome) {
    const ScheduleCandidate &best = outcome.search.best();
    return needOf(request.problem, outcome.best(), best, best.mostBytes());
  };
  for (int64_t step = 1; known.bytes > 1 && !clock.passed();) {
    const int64_t bytes = std::max<int64_t>(known.bytes - step, 1);
    llvm::Expected<JointOutcome> found = searchWith(bytes);
    if (!found) {
      ErrorText why = describe(found.takeError());
      if (why.code != ExitCode::NoPlan)
        return makeError(why.code, why.message, why.help);
      if (bytes == known.bytes - 1)
        break;
      step = std::max<int64_t>(1, step / kSmaller);
      continue;
    }
    if (needIn(*found).bytes <= limit)
      return found;
    known = {bytes, needIn(*found).what};
    // What was found needs less, but with just that as the limit other cuts are looked at.
    if (const int64_t need = needIn(*found).bytes; need < bytes) {
      llvm::Expected<JointOutcome> again = searchWith(need);
      if (again)
        known = {need, needIn(*again).what};
      else
        llvm::consumeError(again.takeError());
    }
    step = step > 1 ? kLarger * step : known.bytes / kFirstStep + 1;
  }
  return nothingFits(request, known, limit);
}

} // namespace pipec
