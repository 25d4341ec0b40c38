#include "tools/schedule/ScheduleTrace.h"

#include "ir/support/Error.h"
#include "tools/report/TraceEvents.h"

#include <map>
#include <tuple>

namespace pipec {
namespace {

using llvm::json::Object;

struct Place {
  size_t rank = 0;
  Timing::Interval time;
};

bool isBackwardOf(ActionKind kind) {
  return kind == ActionKind::FullBackward || kind == ActionKind::InputGrad;
}

class TraceWriter {
public:
  TraceWriter(const Schedule &schedule, const Timing &timing, const ScheduleCosts &costs)
      : schedule_(schedule), timing_(timing), costs_(costs) {
    for (size_t r = 0; r < schedule.ranks.size(); ++r)
      for (size_t i = 0; i < schedule.ranks[r].size(); ++i) {
        const Action &action = schedule.ranks[r][i];
        if (action.kind == ActionKind::Forward || isBackwardOf(action.kind))
          makers_[{action.kind == ActionKind::Forward, action.stage, action.microBatch}] = {
              r, timing.ranks[r][i]};
      }
  }

  std::string write(llvm::StringRef name) {
    for (size_t r = 0; r < schedule_.ranks.size(); ++r)
      rank(r);
    return events_.text(Object{{"schedule", name}, {"simulated", true}});
  }

private:
  void rank(size_t r) {
    events_.process(r, fmt::format("rank {}", r), r);
    int64_t held = 0;
    for (size_t i = 0; i < schedule_.ranks[r].size(); ++i)
      if (isCompute(schedule_.ranks[r][i].kind))
        span(r, schedule_.ranks[r][i], timing_.ranks[r][i], held);
  }

  void span(size_t r, const Action &action, const Timing::Interval &time, int64_t &held) {
    const std::string text = toString(action), kind(1, text[text.find_first_not_of("0123456789")]);
    events_.span(
        r, fmt::format("{}/{}/{}", action.stage, action.microBatch, kind), kind, time,
        Object{{"stage", static_cast<int64_t>(action.stage)}, {"micro_batch", action.microBatch}});
    if (action.kind == ActionKind::Forward && action.stage > 0)
      arrow(r, time.start, true, action.stage - 1, action.microBatch);
    if (isBackwardOf(action.kind) && action.stage + 1 < costs_.stages.size())
      arrow(r, time.start, false, action.stage + 1, action.microBatch);
    const StageCosts &stage = costs_.stages[action.stage];
    const bool whole = action.kind == ActionKind::FullBackward;
    const int64_t change = action.kind == ActionKind::Forward      ? stage.heldByForward
                           : whole                                 ? -stage.heldByForward
                           : action.kind == ActionKind::InputGrad  ? -stage.freedByInputGrad
                           : action.kind == ActionKind::WeightGrad ? -stage.freedByWeightGrad()
                                                                   : 0;
    if (change == 0)
      return;
    held += change;
    events_.counter(r, "activations", "held", change > 0 ? time.start : time.end, held);
  }

  /// From where the value was made, when that is another rank.
  void arrow(size_t r, int64_t at, bool forward, size_t stage, int64_t microBatch) {
    const Place &maker = makers_.at({forward, stage, microBatch});
    if (maker.rank != r)
      events_.arrow(fmt::format("{}{}", forward ? "F" : "B", microBatch), maker.rank,
                    maker.time.end, r, at);
  }

  const Schedule &schedule_;
  const Timing &timing_;
  const ScheduleCosts &costs_;
  std::map<std::tuple<bool, size_t, int64_t>, Place> makers_; // forward, stage, micro-batch
  TraceEvents events_;
};

} // namespace

std::string traceOf(const Schedule &schedule, const Timing &timing, const ScheduleCosts &costs,
                    llvm::StringRef name) {
  return TraceWriter(schedule, timing, costs).write(name);
}

} // namespace pipec
