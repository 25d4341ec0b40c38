#include "ir/schedule/Routes.h"

#include "ir/schedule/PlanGradients.h"
#include "llvm/ADT/STLExtras.h"

#include <map>
#include <set>
#include <tuple>

namespace pipec {
namespace {

class RouteFinder {
public:
  explicit RouteFinder(const Plan &plan) : plan_(plan) {
    const size_t stages = plan.stages.size();
    for (auto *lists : {&result_.takesOfForward, &result_.sendsOfForward, &result_.takesOfBackward,
                        &result_.sendsOfBackward, &result_.weightsOut, &result_.weightsBack,
                        &result_.weightGradsOut})
      lists->resize(stages);
  }

  Routes run(bool train) {
    for (size_t c = 0; c < plan_.channels.size(); ++c) {
      const bool weight = plan_.channels[c].kind == Channel::Kind::Weight;
      if (weight && !train)
        continue;
      values(c);
      if (train && carriesGradient(plan_, plan_.channels[c]))
        weight ? weightGradients(c) : gradients(c);
    }
    sortSends();
    numberLanes();
    return std::move(result_);
  }

private:
  using LaneKey = std::tuple<Payload, size_t, size_t>;

  size_t rankOf(size_t stage) const { return plan_.stages[stage].rank; }

  uint32_t add(Payload payload, size_t channel, size_t maker, size_t from, size_t to) {
    result_.routes.push_back({payload, channel, maker, 0});
    result_.readersOnRank.push_back(0);
    keys_.push_back({payload, from, to});
    return static_cast<uint32_t>(result_.routes.size() - 1);
  }

  /// Consumers, ascending, each once.
  std::vector<size_t> readers(size_t c) const {
    std::vector<size_t> stages;
    for (const PortRef &to : plan_.channels[c].to)
      stages.push_back(to.stage);
    llvm::sort(stages);
    stages.erase(std::unique(stages.begin(), stages.end()), stages.end());
    return stages;
  }

  std::set<size_t> otherRanks(size_t c) const {
    std::set<size_t> ranks;
    for (size_t stage : readers(c))
      ranks.insert(rankOf(stage));
    ranks.erase(rankOf(plan_.channels[c].from.stage));
    return ranks;
  }

  void values(size_t c) {
    const size_t maker = plan_.channels[c].from.stage;
    const bool weight = plan_.channels[c].kind == Channel::Kind::Weight;
    for (size_t to : otherRanks(c)) {
      const uint32_t route =
          add(weight ? Payload::Weight : Payload::Activation, c, maker, rankOf(maker), to);
      (weight ? result_.weightsOut : result_.sendsOfForward)[maker].push_back(route);
      for (size_t stage : readers(c))
        if (rankOf(stage) == to)
          result_.takesOfForward[stage].push_back(route);
    }
  }

  /// Consumer n -> consumer n-1 -> ... -> producer, where the two are on different ranks.
  void gradients(size_t c) {
    std::vector<size_t> way = readers(c);
    way.insert(way.begin(), plan_.channels[c].from.stage);
    for (size_t i = 1; i < way.size(); ++i)
      if (rankOf(way[i]) != rankOf(way[i - 1])) {
        const uint32_t route =
            add(Payload::Gradient, c, way[i], rankOf(way[i]), rankOf(way[i - 1]));
        result_.sendsOfBackward[way[i]].push_back(route);
        result_.takesOfBackward[way[i - 1]].push_back(route);
      }
  }

  void weightGradients(size_t c) {
    const size_t owner = plan_.channels[c].from.stage;
    for (size_t from : otherRanks(c)) {
      uint32_t route = 0;
      bool first = true;
      for (size_t stage : readers(c)) {
        if (rankOf(stage) != from)
          continue;
        if (std::exchange(first, false))
          route = add(Payload::WeightGradient, c, stage, from, rankOf(owner));
        ++result_.readersOnRank[route];
        result_.weightGradsOut[stage].push_back(route);
      }
      result_.weightsBack[owner].push_back(route);
    }
  }

  /// A forward sends in the order of its outputs, then of channels, then of ranks.
  void sortSends() {
    for (size_t s = 0; s < plan_.stages.size(); ++s) {
      std::map<size_t, size_t> place;
      for (const StageOutput &output : plan_.stages[s].outputs)
        for (size_t c : output.channels)
          place.try_emplace(c, place.size());
      llvm::stable_sort(result_.sendsOfForward[s], [&](uint32_t a, uint32_t b) {
        return place[result_.routes[a].channel] < place[result_.routes[b].channel];
      });
    }
  }

  void numberLanes() {
    std::map<LaneKey, size_t> numbers;
    for (const LaneKey &key : keys_)
      numbers.try_emplace(key, 0);
    for (auto &[key, number] : numbers) {
      number = result_.lanes.size();
      const auto [payload, from, to] = key;
      result_.lanes.push_back({from, to, 1, payload});
    }
    result_.routesOfLane.assign(result_.lanes.size(), 0);
    for (size_t r = 0; r < keys_.size(); ++r) {
      result_.routes[r].lane = numbers.at(keys_[r]);
      ++result_.routesOfLane[result_.routes[r].lane];
    }
  }

  const Plan &plan_;
  Routes result_;
  std::vector<LaneKey> keys_; // per route
};

} // namespace

Routes routesOf(const Plan &plan, bool train) { return RouteFinder(plan).run(train); }

} // namespace pipec
