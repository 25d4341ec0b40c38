#include "ir/schedule/ProgramCosts.h"

#include "ir/schedule/check/Demands.h"

#include <algorithm>
#include <cmath>

namespace pipec {

int64_t LinkCosts::transferNs(int64_t bytes) const {
  if (bytesPerSecond <= 0)
    return 0;
  return static_cast<int64_t>(
      std::ceil(static_cast<double>(bytes) * 1e9 / static_cast<double>(bytesPerSecond)));
}

int64_t ProgramCosts::wholeBackwardNs(size_t stage) const {
  return wholeBackward.empty() ? stages[stage].fullBackward() : wholeBackward[stage];
}

const LinkCosts &ProgramCosts::between(size_t from, size_t to) const {
  const auto found = linkOf.find({from, to});
  return found == linkOf.end() ? link : links[found->second];
}

int64_t ProgramCosts::bytesOf(const Plan &plan, size_t channel) const {
  return channelBytes.empty() ? plan.channels[channel].tensor.bytes : channelBytes[channel];
}

int64_t ProgramCosts::treeNs(const std::vector<size_t> &ranks) const {
  if (ranks.size() < 2)
    return 0;
  int64_t levels = 0, slowest = 0;
  for (size_t n = 1; n < ranks.size(); n *= 2)
    ++levels;
  for (size_t i = 0; i + 1 < ranks.size(); ++i)
    slowest = std::max(slowest, between(ranks[i], ranks[i + 1]).latency);
  return 2 * levels * slowest;
}

namespace {

class LowerBound {
public:
  LowerBound(const Plan &plan, const RunShape &shape, const ProgramCosts &costs)
      : plan_(plan), shape_(shape), costs_(costs), demands_(plan, shape.train) {}

  int64_t run() {
    wayOfOneMicroBatch();
    int64_t bound = 0;
    for (size_t s = 0; s < plan_.stages.size(); ++s)
      bound = std::max(bound, end_[s]);
    std::map<size_t, Load> devices;
    for (size_t r = 0; r < plan_.ranks * shape_.replicas; ++r)
      add(devices[costs_.deviceOfRank.empty() ? r : costs_.deviceOfRank[r]], r);
    for (const auto &[device, load] : devices)
      bound = std::max(bound, load.first + load.work + load.after);
    return std::max(bound, linkBound());
  }

private:
  struct Load {
    int64_t first = INT64_MAX, work = 0, after = INT64_MAX;
  };

  size_t rankOf(size_t stage) const { return plan_.stages[stage].rank; }
  int64_t timeOf(const std::vector<int64_t> &list, size_t stage, int64_t otherwise) const {
    return list.empty() ? otherwise : list[stage];
  }
  /// Of all micro-batches.
  int64_t recomputeOf(size_t s) const {
    int64_t count = 0;
    for (int64_t k = 0; k < shape_.microBatches; ++k)
      count += shape_.recomputes(s, k);
    return count * timeOf(costs_.recompute, s, costs_.stages[s].forward);
  }
  int64_t hop(const Need &need, size_t to) const {
    if (!need.edge)
      return 0;
    const LinkCosts &way = costs_.between(rankOf(need.stage), rankOf(to));
    return way.latency + way.transferNs(costs_.bytesOf(plan_, need.channel));
  }

  /// With every rank free: stages are numbered along the model, so one sweep there and one back
  /// suffice. A recompute may run while the gradient is in transit, so it does not count.
  void wayOfOneMicroBatch() {
    const size_t stages = plan_.stages.size();
    ready_.assign(stages, 0);
    end_.assign(stages, 0);
    auto isActivation = [&](const Need &need) {
      return plan_.channels[need.channel].kind == Channel::Kind::Activation;
    };
    for (size_t s = 0; s < stages; ++s) {
      for (const Need &need : demands_.of(s).forward)
        if (isActivation(need))
          ready_[s] = std::max(ready_[s], ready_[need.stage] + costs_.stages[need.stage].forward +
                                              hop(need, s));
      end_[s] = ready_[s] + costs_.stages[s].forward;
    }
    if (!shape_.train)
      return;
    std::vector<int64_t> done(stages, 0); // of the input gradient
    for (size_t s = stages; s-- > 0;) {
      int64_t start = end_[s];
      for (const Need &need : demands_.of(s).backward)
        start = std::max(start, done[need.stage] + hop(need, s));
      done[s] = start + std::min(costs_.stages[s].inputGrad, costs_.wholeBackwardNs(s));
      end_[s] = start + backward(s) + update(s);
    }
  }

  /// A schedule may run it whole or split.
  int64_t backward(size_t s) const {
    return std::min(costs_.stages[s].fullBackward(), costs_.wholeBackwardNs(s));
  }
  int64_t update(size_t s) const { return shape_.optimizer ? timeOf(costs_.optimize, s, 0) : 0; }

  void add(Load &load, size_t rank) const {
    for (size_t s : demands_.stagesOn(rank % plan_.ranks)) {
      const StageCosts &stage = costs_.stages[s];
      load.first = std::min(load.first, ready_[s]);
      load.work += shape_.microBatches * (stage.forward + (shape_.train ? backward(s) : 0));
      if (shape_.train)
        load.work += recomputeOf(s) + update(s);
      load.after = std::min(load.after, shape_.train ? 0 : restAfter(s));
    }
    if (demands_.stagesOn(rank % plan_.ranks).empty() && load.first == INT64_MAX)
      load = {0, 0, 0};
  }

  /// After the last forward of a stage, its micro-batch must still reach the end.
  int64_t restAfter(size_t s) const {
    std::vector<int64_t> way(plan_.stages.size(), -1);
    way[s] = 0;
    int64_t longest = 0;
    for (size_t t = s + 1; t < plan_.stages.size(); ++t)
      for (const Need &need : demands_.of(t).forward)
        if (way[need.stage] >= 0) {
          way[t] = std::max(way[t], way[need.stage] + hop(need, t) + costs_.stages[t].forward);
          longest = std::max(longest, way[t]);
        }
    return longest;
  }

  int64_t linkBound() const {
    std::map<size_t, int64_t> carried;
    for (size_t k = 0; k < shape_.replicas; ++k)
      for (const Edge &edge : demands_.edges())
        if (auto found =
                costs_.linkOf.find({k * plan_.ranks + edge.from, k * plan_.ranks + edge.to});
            found != costs_.linkOf.end())
          carried[found->second] +=
              (edge.perRun() ? 1 : shape_.microBatches) *
              costs_.links[found->second].transferNs(costs_.bytesOf(plan_, edge.channel));
    int64_t bound = 0;
    for (const auto &[link, ns] : carried)
      bound = std::max(bound, ns + costs_.links[link].latency);
    return bound;
  }

  const Plan &plan_;
  const RunShape &shape_;
  const ProgramCosts &costs_;
  Demands demands_;
  std::vector<int64_t> ready_, end_; // per stage: earliest forward, earliest end of everything
};

} // namespace

int64_t runLowerBound(const Plan &plan, const RunShape &shape, const ProgramCosts &costs) {
  return LowerBound(plan, shape, costs).run();
}

} // namespace pipec
