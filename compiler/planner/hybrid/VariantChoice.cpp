#include "compiler/planner/hybrid/VariantChoice.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>

namespace pipec {

namespace {

constexpr size_t kMostSteps = 20'000;
constexpr double kNoTime = std::numeric_limits<double>::infinity();

/// A step of an item from a variant to a slower one along the lower hull of its variants.
struct HullStep {
  double time, memory; // more time, less memory
  uint32_t item, to;   // to: among the variants that no other one beats in both
  double rate() const { return time / memory; }
};

class Chooser {
public:
  Chooser(const VariantTable &items, double memory) : memoryLimit_(memory) {
    base_.resize(items.items());
    std::vector<uint32_t> order;
    for (uint32_t i = 0; i < items.items(); ++i) {
      order.resize(items.start[i + 1] - items.start[i]);
      std::iota(order.begin(), order.end(), items.start[i]);
      std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
        return std::tie(items.costs[a].time, items.costs[a].memory) <
               std::tie(items.costs[b].time, items.costs[b].memory);
      });
      const auto begin = static_cast<uint32_t>(costs_.size());
      for (uint32_t v : order)
        if (costs_.size() == begin || items.costs[v].memory < costs_.back().memory) {
          costs_.push_back(items.costs[v]);
          variant_.push_back(v - items.start[i]);
        }
      time_ += costs_[begin].time;
      memory_ += costs_[begin].memory;
      least_ += costs_.back().memory;
      base_[i] = variant_[begin];
      const auto end = static_cast<uint32_t>(costs_.size());
      if (end - begin > 1)
        free_.push_back({begin, end, i});
    }
    if (memory_ > memoryLimit_ && least_ <= memoryLimit_)
      makeSteps();
  }

  ChoiceBounds bounds() {
    if (least_ > memoryLimit_)
      return {kNoTime, kNoTime};
    if (memory_ <= memoryLimit_)
      return {time_, time_};
    return {relaxed(0, time_, memory_), greedy()};
  }

  ChoiceAnswer run(double timeLimit, std::vector<uint32_t> &choice) {
    timeLimit_ = timeLimit;
    if (time_ > timeLimit_ || least_ > memoryLimit_)
      return ChoiceAnswer::No;
    at_.assign(free_.size(), 0);
    if (memory_ > memoryLimit_) {
      if (relaxed(0, time_, memory_) > timeLimit_)
        return ChoiceAnswer::No;
      if (const double time = greedy(); time > timeLimit_ || time == kNoTime) {
        at_.assign(free_.size(), 0);
        if (!branch(0, time_, memory_))
          return steps_ > kMostSteps ? ChoiceAnswer::Unknown : ChoiceAnswer::No;
      }
    }
    choice = base_;
    for (size_t i = 0; i < free_.size(); ++i)
      choice[free_[i].item] = variant_[free_[i].begin + at_[i]];
    return ChoiceAnswer::Yes;
  }

private:
  struct FreeItem {
    uint32_t begin, end; // in costs_: by ascending time and descending memory
    uint32_t item;
  };
  const VariantCost &cost(size_t free, uint32_t at) const { return costs_[free_[free].begin + at]; }
  uint32_t last(size_t free) const { return free_[free].end - free_[free].begin - 1; }

  /// Items that differ most come first; equal ones stand side by side.
  void makeSteps() {
    auto key = [&](const FreeItem &item) {
      const VariantCost &first = costs_[item.begin], &end = costs_[item.end - 1];
      return std::make_tuple(first.memory - end.memory, end.time - first.time);
    };
    std::stable_sort(free_.begin(), free_.end(),
                     [&](const FreeItem &a, const FreeItem &b) { return key(a) > key(b); });
    for (uint32_t i = 0; i < free_.size(); ++i)
      for (uint32_t from = 0; from < last(i);) {
        HullStep best{0, 0, i, 0};
        for (uint32_t to = from + 1; to <= last(i); ++to) {
          const HullStep step{cost(i, to).time - cost(i, from).time,
                              cost(i, from).memory - cost(i, to).memory, i, to};
          if (best.to == 0 || step.rate() <= best.rate())
            best = step;
        }
        hull_.push_back(best);
        from = best.to;
      }
    std::stable_sort(hull_.begin(), hull_.end(),
                     [](const HullStep &a, const HullStep &b) { return a.rate() < b.rate(); });
  }

  /// The least time when the items from `first` on may be divided, all of them at their fastest in
  /// `time` and `memory`.
  double relaxed(size_t first, double time, double memory) const {
    for (const HullStep &step : hull_) {
      if (memory <= memoryLimit_)
        return time;
      if (step.item < first)
        continue;
      const double part = std::min(1.0, (memory - memoryLimit_) / step.memory);
      time += part * step.time;
      memory -= part * step.memory;
    }
    // Sums in another order differ in the last digits.
    return memory <= memoryLimit_ * (1 + 1e-12) ? time : kNoTime;
  }

  /// Takes whole steps by rate, then undoes those that are not needed. Returns the time.
  double greedy() {
    at_.assign(free_.size(), 0);
    double time = time_, memory = memory_;
    for (const HullStep &step : hull_) {
      if (memory <= memoryLimit_)
        break;
      at_[step.item] = step.to;
      time += step.time;
      memory -= step.memory;
    }
    for (size_t i = 0; i < free_.size(); ++i)
      while (at_[i] > 0) {
        const VariantCost &now = cost(i, at_[i]), &before = cost(i, at_[i] - 1);
        if (memory - now.memory + before.memory > memoryLimit_)
          break;
        memory += before.memory - now.memory;
        time += before.time - now.time;
        --at_[i];
      }
    return memory <= memoryLimit_ ? time : kNoTime;
  }

  /// Their variants differ by the same amounts, but for rounding.
  bool same(size_t a, size_t b) const {
    if (last(a) != last(b))
      return false;
    auto close = [](double x, double y) { return std::abs(x - y) <= 1e-12 * std::abs(x); };
    for (uint32_t v = 1; v <= last(a); ++v)
      if (!close(cost(a, v).time - cost(a, 0).time, cost(b, v).time - cost(b, 0).time) ||
          !close(cost(a, 0).memory - cost(a, v).memory, cost(b, 0).memory - cost(b, v).memory))
        return false;
    return true;
  }

  bool branch(size_t first, double time, double memory) {
    if (time > timeLimit_ || ++steps_ > kMostSteps)
      return false;
    if (memory <= memoryLimit_) {
      std::fill(at_.begin() + static_cast<std::ptrdiff_t>(first), at_.end(), 0);
      return true;
    }
    if (first == free_.size() || relaxed(first, time, memory) > timeLimit_)
      return false;
    // Of equal items the earlier ones are the slower ones.
    uint32_t most = last(first);
    if (first > 0 && same(first, first - 1))
      most = std::min(most, at_[first - 1]);
    for (uint32_t v = most + 1; v-- > 0;) {
      at_[first] = v;
      if (branch(first + 1, time + cost(first, v).time - cost(first, 0).time,
                 memory + cost(first, v).memory - cost(first, 0).memory))
        return true;
    }
    return false;
  }

  double memoryLimit_, timeLimit_ = kNoTime;
  std::vector<VariantCost> costs_;
  std::vector<uint32_t> variant_, base_; // per cost; per item: the fastest
  std::vector<FreeItem> free_;
  std::vector<HullStep> hull_;
  std::vector<uint32_t> at_; // per free item
  double time_ = 0, memory_ = 0, least_ = 0;
  size_t steps_ = 0;
};

} // namespace

ChoiceBounds boundChoice(const VariantTable &items, double memory) {
  return Chooser(items, memory).bounds();
}

ChoiceAnswer chooseVariants(const VariantTable &items, double time, double memory,
                            std::vector<uint32_t> &choice) {
  return Chooser(items, memory).run(time, choice);
}

} // namespace pipec
