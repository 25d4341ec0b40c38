#include "compiler/planner/Slicing.h"

#include "ir/support/Check.h"

#include <algorithm>
#include <cmath>

namespace pipec {

namespace {

constexpr uint32_t kBlock = 64;
constexpr uint32_t kNone = ~0u;

/// A transfer that changes for the stages that begin at `first` to `last` once they reach further.
struct Change {
  uint32_t first, last;
  double weight;
};

/// f[j] = 1 + min f[i] over the i whose stage (i, j] has a load below T; is f[n] <= stages?
/// With W(b) the weight of the nets cut at boundary b, the transfers of stage (i, j] are W(i) +
/// W(j) less, for every net that both boundaries cut, its weight, and twice that if the stage has
/// no member of it. The part that depends on i is kept per i in `key_` while j moves: a net changes
/// it for a range of i only when j passes one of its members. Blocks of 64 positions hold the
/// change they all share and, per value of f, the least key.
class OrderSlicer {
public:
  OrderSlicer(const PartitionProblem &problem, const Items &items,
              const std::vector<uint32_t> &order, const SliceLimits &limits)
      : items_(items), limits_(limits), scale_(problem.kinds[limits.kind].paysTransfers ? 1 : 0),
        memoryLimit_(problem.kinds[limits.kind].memory), n_(static_cast<uint32_t>(order.size())) {
    time_.assign(n_ + 1, 0);
    memory_.assign(n_ + 1, 0);
    firstBegin_.assign(n_ + 1, 0);
    place_.resize(n_);
    for (uint32_t j = 0; j < n_; ++j) {
      uint32_t item = order[j];
      place_[item] = j;
      time_[j + 1] = time_[j] + items.time[limits.kind][item];
      memory_[j + 1] = memory_[j] + items.memory[item];
      largest_ = std::max(largest_, items.time[limits.kind][item]);
      if (!limits.firstBegins.empty())
        firstBegin_[j + 1] = std::max(firstBegin_[j], limits.firstBegins[j]);
    }
    listChanges();
  }

  double leastLoad() const {
    return std::max(largest_, time_[n_] / static_cast<double>(limits_.stages));
  }

  /// The ends of at most `stages` stages with loads below `threshold`, or nothing.
  std::vector<uint32_t> stagesBelow(double threshold) {
    reset();
    insert(0, 0);
    uint32_t low = 0;
    for (uint32_t j = 1; j <= n_; ++j) {
      uint32_t oldLow = low;
      low = std::max(low, firstBegin_[j]);
      while (low < j &&
             (time_[j] - time_[low] >= threshold || memory_[j] - memory_[low] > memoryLimit_))
        ++low;
      for (uint32_t i = oldLow; i < std::min(low, j); ++i)
        leave(i);
      if (low == j)
        return {};
      for (uint32_t at = changeStart_[j]; at < changeStart_[j + 1]; ++at)
        apply(changes_[at], low);
      double room = threshold - scale_ * cutWeight_[j] - time_[j];
      for (uint32_t stages = leastStages_; stages < limits_.stages; ++stages)
        if (uint32_t from = find(stages, low, room); from != kNone) {
          from_[j] = from;
          if (j < n_)
            insert(j, stages + 1);
          break;
        }
    }
    std::vector<uint32_t> ends;
    if (from_[n_] != kNone)
      for (uint32_t j = n_; j > 0; j = from_[j])
        ends.push_back(j);
    std::reverse(ends.begin(), ends.end());
    return ends;
  }

  double bottleneck(const std::vector<uint32_t> &ends) const {
    PIPEC_ASSERT(!ends.empty() && ends.back() == n_, "the last stage ends at the last item");
    std::vector<double> moved(ends.size(), 0);
    std::vector<uint32_t> stages;
    for (uint32_t net = 0; net < items_.netWeight.size(); ++net) {
      stages.clear();
      for (uint32_t item : items_.netMembers[net])
        stages.push_back(static_cast<uint32_t>(
            std::upper_bound(ends.begin(), ends.end(), place_[item]) - ends.begin()));
      std::sort(stages.begin(), stages.end());
      stages.erase(std::unique(stages.begin(), stages.end()), stages.end());
      if (stages.size() > 1)
        for (uint32_t stage : stages)
          moved[stage] += scale_ * items_.netWeight[net];
    }
    double worst = 0;
    for (size_t stage = 0; stage < ends.size(); ++stage) {
      double time = time_[ends[stage]] - (stage ? time_[ends[stage - 1]] : 0);
      worst = std::max(worst, time + moved[stage]);
    }
    return worst;
  }

private:
  struct Least {
    uint32_t stages;
    double key;
  };

  void listChanges() {
    std::vector<double> gained(n_ + 2, 0);
    std::vector<uint32_t> places, count(n_ + 2, 0);
    for (int pass = 0; pass < 2; ++pass) { // count, then fill
      for (uint32_t net = 0; net < items_.netWeight.size(); ++net) {
        places.clear();
        for (uint32_t item : items_.netMembers[net])
          places.push_back(place_[item]);
        std::sort(places.begin(), places.end());
        double weight = items_.netWeight[net] * scale_;
        uint32_t first = places[0] + 1; // the first boundary that cuts it
        for (size_t member = 1; member < places.size(); ++member) {
          // When j passes this member, stages that begin after the one before hold a member.
          bool last = member + 1 == places.size();
          uint32_t j = places[member] + 1, previous = places[member - 1] + 1;
          if (pass == 0) {
            count[j] += last && previous > first ? 2 : 1;
            continue;
          }
          changes_[changeStart_[j] + count[j]++] = {previous, j - 1, last ? 2 * weight : weight};
          if (last && previous > first)
            changes_[changeStart_[j] + count[j]++] = {first, previous - 1, weight};
        }
        if (pass == 0) {
          gained[first] += items_.netWeight[net];
          gained[places.back() + 1] -= items_.netWeight[net];
        }
      }
      if (pass == 0) {
        changeStart_.assign(n_ + 2, 0);
        for (uint32_t j = 0; j <= n_; ++j)
          changeStart_[j + 1] = changeStart_[j] + count[j];
        changes_.resize(changeStart_[n_ + 1]);
        count.assign(n_ + 2, 0);
      }
    }
    cutWeight_.assign(n_ + 1, 0);
    double open = 0;
    for (uint32_t b = 0; b <= n_; ++b)
      cutWeight_[b] = open = std::max(0.0, open + gained[b]);
  }

  void reset() {
    key_.assign(n_ + 1, kUnlimited);
    stages_.assign(n_ + 1, kNone);
    from_.assign(n_ + 1, kNone);
    shared_.assign(n_ / kBlock + 1, 0);
    least_.assign(n_ / kBlock + 1, {});
    inWindow_.assign(limits_.stages + 1, 0);
    span_.assign(limits_.stages + 1, {kNone, 0});
    hint_.assign(limits_.stages + 1, kNone);
    leastStages_ = 0;
  }

  /// Boundary i can begin a stage; `stages` stages come before. At j = i every net cut at i counts
  /// twice.
  void insert(uint32_t i, uint32_t stages) {
    uint32_t block = i / kBlock;
    stages_[i] = stages;
    key_[i] = -scale_ * cutWeight_[i] - time_[i] - shared_[block];
    bool found = false;
    for (Least &least : least_[block])
      if (least.stages == stages) {
        least.key = std::min(least.key, key_[i]);
        found = true;
      }
    if (!found)
      least_[block].push_back({stages, key_[i]});
    ++inWindow_[stages];
    leastStages_ = std::min(leastStages_, stages);
    span_[stages].first = std::min(span_[stages].first, i);
    span_[stages].second = i;
  }

  void leave(uint32_t i) {
    if (stages_[i] == kNone)
      return;
    --inWindow_[stages_[i]];
    while (leastStages_ < limits_.stages && inWindow_[leastStages_] == 0)
      ++leastStages_;
  }

  void apply(const Change &change, uint32_t low) {
    if (change.last < low)
      return;
    uint32_t first = std::max(change.first, low), last = change.last;
    for (uint32_t block = first / kBlock; block <= last / kBlock; ++block) {
      uint32_t begin = block * kBlock, end = begin + kBlock - 1;
      if (first <= begin && end <= last) {
        shared_[block] += change.weight;
        continue;
      }
      bool wasLeast = false;
      for (uint32_t i = std::max(first, begin); i <= std::min(last, end); ++i) {
        for (const Least &least : least_[block])
          wasLeast |= least.stages == stages_[i] && key_[i] <= least.key;
        key_[i] += change.weight;
      }
      if (!wasLeast)
        continue;
      for (Least &least : least_[block])
        least.key = kUnlimited;
      for (uint32_t i = begin; i <= std::min(end, n_); ++i)
        for (Least &least : least_[block])
          if (least.stages == stages_[i])
            least.key = std::min(least.key, key_[i]);
    }
  }

  /// A boundary from `low` on after `stages` stages with a key below `room`.
  uint32_t find(uint32_t stages, uint32_t low, double room) {
    auto fits = [&](uint32_t i) {
      return stages_[i] == stages && key_[i] + shared_[i / kBlock] < room;
    };
    auto [first, last] = span_[stages];
    if (first == kNone || last < low)
      return kNone;
    if (hint_[stages] != kNone && hint_[stages] >= low && fits(hint_[stages]))
      return hint_[stages];
    first = std::max(first, low);
    for (uint32_t block = first / kBlock; block <= last / kBlock; ++block)
      for (const Least &least : least_[block])
        if (least.stages == stages && least.key + shared_[block] < room)
          for (uint32_t i = std::max(first, block * kBlock);
               i <= std::min(last, block * kBlock + kBlock - 1); ++i)
            if (fits(i))
              return hint_[stages] = i;
    return kNone;
  }

  const Items &items_;
  SliceLimits limits_;
  double scale_, memoryLimit_, largest_ = 0;
  uint32_t n_;
  std::vector<double> time_, memory_, cutWeight_; // up to a boundary; of a boundary
  std::vector<uint32_t> place_, changeStart_;
  std::vector<uint32_t> firstBegin_; // of a stage that ends at a boundary
  std::vector<Change> changes_;      // by the j that brings them
  // The state of one sweep.
  std::vector<double> key_, shared_;
  std::vector<uint32_t> stages_, from_, inWindow_, hint_;
  std::vector<std::vector<Least>> least_;
  std::vector<std::pair<uint32_t, uint32_t>> span_; // positions after so many stages
  uint32_t leastStages_ = 0;
};

} // namespace

Slices sliceOrder(const PartitionProblem &problem, const Items &items,
                  const std::vector<uint32_t> &order, const SliceLimits &limits) {
  OrderSlicer slicer(problem, items, order, limits);
  Slices result;
  auto attempt = [&](double threshold) {
    std::vector<uint32_t> ends = slicer.stagesBelow(threshold);
    if (ends.empty()) {
      result.lowerBound = std::max(result.lowerBound, threshold);
      return false;
    }
    result.bottleneck = slicer.bottleneck(ends);
    result.ends = std::move(ends);
    return true;
  };
  result.lowerBound = slicer.leastLoad();
  // Upwards from the bound in growing steps, to the top only when nothing else fits.
  double step = 1e-3;
  double top = std::nextafter(slicer.leastLoad(), kUnlimited);
  while (result.ends.empty() && step < 1e3) {
    attempt(top * (1 + step));
    step *= 4;
  }
  if (result.ends.empty() && !attempt(kUnlimited))
    return result;
  while (result.bottleneck - result.lowerBound > limits.tolerance * result.bottleneck)
    attempt(result.lowerBound + (result.bottleneck - result.lowerBound) / 2);
  return result;
}

} // namespace pipec
