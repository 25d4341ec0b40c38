#include "ir/schedule/generators/FillGaps.h"

#include "ir/schedule/generators/OrderTimes.h"

#include <algorithm>

namespace pipec {

namespace {

constexpr size_t kMostSweeps = 64;

class Filler {
public:
  Filler(Schedule &schedule, Placement placement, const ScheduleRequest &request)
      : schedule_(schedule), request_(request),
        times_(request, rankOfStages(placement, request.ranks, request.chunks)) {}

  void run() {
    for (size_t sweep = 0; sweep < kMostSweeps && times_.run(schedule_); ++sweep) {
      bool moved = false;
      for (size_t r = 0; r < schedule_.ranks.size(); ++r)
        moved |= fillRank(r);
      if (!moved)
        break;
    }
  }

private:
  bool fillRank(size_t r) {
    std::vector<Action> &actions = schedule_.ranks[r];
    std::vector<Timing::Interval> &times = times_.ranks[r];
    bool moved = false;
    int64_t held = 0;
    for (size_t i = 0; i < actions.size(); ++i) {
      const int64_t free = i == 0 ? 0 : times[i - 1].end;
      if (const size_t j = candidate(r, i, free, held); j != i) {
        const int64_t start = std::max(free, times_.readyAt(actions[j]));
        times[j] = {start, start + times_.lengthOf(actions[j])};
        const auto from = static_cast<ptrdiff_t>(i), to = static_cast<ptrdiff_t>(j);
        std::rotate(actions.begin() + from, actions.begin() + to, actions.begin() + to + 1);
        std::rotate(times.begin() + from, times.begin() + to, times.begin() + to + 1);
        moved = true;
      }
      held += times_.memoryOf(actions[i]);
    }
    return moved;
  }

  /// The first action after `i` that can run in the gap before it; `i` when there is none.
  size_t candidate(size_t r, size_t i, int64_t free, int64_t held) const {
    const std::vector<Action> &actions = schedule_.ranks[r];
    const int64_t gapEnd = times_.ranks[r][i].start;
    if (free >= gapEnd)
      return i;
    const size_t window = std::min(actions.size(), i + 12 * request_.ranks);
    int64_t most = held; // held after any action from i to before j
    for (size_t j = i; j < window; ++j) {
      const Action &action = actions[j];
      const int64_t memory = times_.memoryOf(action);
      if (j > i && std::max(free, times_.readyAt(action)) + times_.lengthOf(action) <= gapEnd &&
          most + std::max<int64_t>(0, memory) <= request_.memoryLimit)
        return j;
      held += memory;
      most = std::max(most, held);
    }
    return i;
  }

  Schedule &schedule_;
  const ScheduleRequest &request_;
  OrderTimes times_;
};

} // namespace

void fillGaps(Schedule &schedule, Placement placement, const ScheduleRequest &request) {
  Filler(schedule, placement, request).run();
}

} // namespace pipec
