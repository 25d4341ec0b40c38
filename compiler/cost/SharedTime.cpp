#include "compiler/cost/SharedTime.h"

#include <algorithm>
#include <limits>

namespace pipec {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

struct RankState {
  size_t next = 0; // index of the action that runs, or waits
  bool running = false;
  double left = 0; // remaining part of it
  double busy = 0;
};

class SharedTimer {
public:
  SharedTimer(const Schedule &schedule, const std::vector<SharedStage> &stages, int64_t latency,
              int64_t atOnce)
      : schedule_(schedule), stages_(stages), latency_(static_cast<double>(latency)),
        atOnce_(static_cast<double>(atOnce)), ranks_(schedule.ranks.size()),
        rankOf_(stages.size(), 0), ended_(stages.size()) {
    for (size_t rank = 0; rank < schedule.ranks.size(); ++rank)
      for (const Action &action : schedule.ranks[rank]) {
        rankOf_[action.stage] = rank;
        std::vector<double> &ends = ended_[action.stage];
        if (ends.size() <= static_cast<size_t>(action.microBatch))
          ends.resize(static_cast<size_t>(action.microBatch) + 1, kNever);
      }
  }

  SharedStep run() {
    while (step()) {
    }
    SharedStep result;
    result.makespan = static_cast<int64_t>(now_);
    for (const RankState &rank : ranks_)
      result.busiest = std::max(result.busiest, static_cast<int64_t>(rank.busy));
    return result;
  }

private:
  const Action &actionOf(size_t rank) const { return schedule_.ranks[rank][ranks_[rank].next]; }
  bool isDone(size_t rank) const { return ranks_[rank].next == schedule_.ranks[rank].size(); }

  double readyAt(const Action &action) const {
    if (action.stage == 0)
      return 0;
    const size_t before = action.stage - 1;
    const double end = ended_[before][static_cast<size_t>(action.microBatch)];
    return rankOf_[before] == rankOf_[action.stage] ? end : end + latency_;
  }

  double nsOf(size_t stage, size_t active) const {
    const auto alone = static_cast<double>(stages_[stage].alone),
               shared = static_cast<double>(stages_[stage].shared);
    if (atOnce_ <= 1)
      return alone;
    return alone +
           (shared - alone) * std::min(1.0, static_cast<double>(active - 1) / (atOnce_ - 1));
  }

  /// Advances to the next start or end of an action; false: there is none.
  bool step() {
    double soonest = kNever;
    size_t active = 0;
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      RankState &state = ranks_[rank];
      if (!state.running && !isDone(rank)) {
        const double ready = readyAt(actionOf(rank));
        state.running = ready <= now_;
        state.left = 1;
        if (!state.running)
          soonest = std::min(soonest, ready);
      }
      active += state.running;
    }
    std::vector<double> times(ranks_.size(), 0);
    for (size_t rank = 0; rank < ranks_.size(); ++rank)
      if (ranks_[rank].running) {
        times[rank] = nsOf(actionOf(rank).stage, active);
        soonest = std::min(soonest, now_ + ranks_[rank].left * times[rank]);
      }
    if (soonest == kNever)
      return false;
    for (size_t rank = 0; rank < ranks_.size(); ++rank)
      if (ranks_[rank].running)
        advance(rank, times[rank], soonest);
    now_ = soonest;
    return true;
  }

  void advance(size_t rank, double ns, double to) {
    RankState &state = ranks_[rank];
    state.busy += to - now_;
    // An action that ends at `to` ends exactly there: rounding must not leave a remainder.
    if (now_ + state.left * ns <= to) {
      const Action &action = actionOf(rank);
      ended_[action.stage][static_cast<size_t>(action.microBatch)] = to;
      state.running = false;
      ++state.next;
      return;
    }
    state.left -= (to - now_) / ns;
  }

  const Schedule &schedule_;
  const std::vector<SharedStage> &stages_;
  double latency_, atOnce_, now_ = 0;
  std::vector<RankState> ranks_;
  std::vector<size_t> rankOf_;
  std::vector<std::vector<double>> ended_; // stage, micro-batch
};

} // namespace

SharedStep timeShared(const Schedule &schedule, const std::vector<SharedStage> &stages,
                      int64_t latency, int64_t atOnce) {
  return SharedTimer(schedule, stages, latency, atOnce).run();
}

} // namespace pipec
