#include "compiler/planner/TrainingCuts.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace pipec {

namespace {

constexpr int kBisections = 60;
constexpr double kForever = 1e300;

/// Stretches between places: stretch c has the operators [start[c], start[c + 1]).
std::vector<size_t> stretchStarts(const TrainingStages &stages) {
  std::vector<size_t> start = {0};
  start.insert(start.end(), stages.places().begin(), stages.places().end());
  start.push_back(stages.operators());
  return start;
}

/// The most micro-batches of a stage in flight, and whether each keeps its activations.
struct MemoryProfile {
  bool recompute = false;
  std::vector<int64_t> inFlight; // per stage; empty: memory is not looked at
};

class Cutter {
public:
  Cutter(const TrainingStages &stages, const TrainingShape &shape)
      : stages_(stages), shape_(shape), start_(stretchStarts(stages)),
        rankOf_(rankOfStages(shape.placement, stages.problem().ranks, shape.chunks)) {}

  std::vector<Boundaries> run(bool byLimit) {
    for (const MemoryProfile &profile : profiles()) {
      if (byLimit && !profile.inFlight.empty())
        addFastest(profile, limits());
      if (!byLimit && profile.inFlight.empty())
        addFastest(profile, {});
      if (!byLimit && !profile.inFlight.empty())
        addSmallest(profile);
    }
    return {found_.begin(), found_.end()};
  }

private:
  size_t count() const { return rankOf_.size(); }
  size_t stretches() const { return start_.size() - 1; }

  std::vector<MemoryProfile> profiles() const {
    const auto m = shape_.microBatches;
    const auto stages = static_cast<int64_t>(count());
    const auto ranks = static_cast<int64_t>(stages_.problem().ranks);
    std::vector<MemoryProfile> result = {{}};
    auto add = [&](llvm::function_ref<int64_t(int64_t)> inFlight) {
      MemoryProfile profile;
      for (int64_t s = 0; s < stages; ++s)
        profile.inFlight.push_back(std::clamp<int64_t>(inFlight(s), 1, m));
      result.push_back(profile);
      profile.recompute = true;
      result.push_back(std::move(profile));
    };
    if (shape_.chunks == 1) {
      add([&](int64_t s) { return ranks - s; });           // 1F1B
      add([&](int64_t s) { return 2 * (ranks - s) - 1; }); // ZB-H2
    } else {
      add([&](int64_t s) { return ranks + (stages - 1 - s) / ranks; });
      add([&](int64_t) { return (ranks + 1) / 2; });
    }
    add([&](int64_t) { return m; }); // GPipe
    return result;
  }

  /// Per rank, for each of its stages.
  std::vector<double> limits() const {
    std::vector<double> result;
    for (size_t r = 0; r < stages_.problem().ranks; ++r) {
      const std::optional<int64_t> limit = stages_.limitOf(r);
      result.push_back(limit ? double(*limit) / double(shape_.chunks) : kForever);
    }
    return result;
  }

  double bytesOf(size_t s, size_t begin, size_t end, const MemoryProfile &profile) const {
    const double received = stages_.crossingBytes(begin) * shape_.share,
                 kept = stages_.keptBytes(begin, end) * shape_.share + received,
                 copies = double(profile.inFlight[s]);
    return stages_.fixedBytes(begin, end) +
           (profile.recompute ? kept + copies * received : copies * kept);
  }

  /// Gives each stage in turn as many stretches as `allowed(stage, first operator, end)` permits.
  std::optional<Boundaries> cut(llvm::function_ref<bool(size_t, size_t, size_t)> allowed) const {
    Boundaries boundaries;
    for (size_t s = 0, begin = 0; s < count(); ++s) {
      size_t low = begin,
             high = stretches() - (count() - 1 - s); // low is possible, more than high is not
      while (low < high) {
        const size_t middle = (low + high + 1) / 2;
        if (allowed(s, start_[begin], start_[middle]))
          low = middle;
        else
          high = middle - 1;
      }
      if (low == begin || (s + 1 == count() && low < stretches()))
        return std::nullopt;
      if (s + 1 < count())
        boundaries.push_back(start_[low]);
      begin = low;
    }
    return boundaries;
  }

  /// The cut for the least value that has one, found by bisection.
  std::optional<Boundaries>
  least(double most, llvm::function_ref<std::optional<Boundaries>(double)> cutFor) const {
    std::optional<Boundaries> best = cutFor(most);
    double low = 0, high = most;
    for (int i = 0; best && i < kBisections; ++i) {
      const double middle = (low + high) / 2;
      if (std::optional<Boundaries> better = cutFor(middle)) {
        best = std::move(better);
        high = middle;
      } else {
        low = middle;
      }
    }
    return best;
  }

  void addFastest(const MemoryProfile &profile, const std::vector<double> &limits) {
    auto fits = [&](size_t s, size_t begin, size_t end) {
      return profile.inFlight.empty() || bytesOf(s, begin, end, profile) <= limits[rankOf_[s]];
    };
    const double m = double(shape_.microBatches);
    for (bool starts : {false, true}) { // whether the start of a rank counts
      if (starts && shape_.chunks > 1)
        continue;
      auto cutFor = [&](double time) {
        return cut([&](size_t s, size_t begin, size_t end) {
          double work =
              stages_.workNs(begin, end) + (profile.recompute ? stages_.forwardNs(begin, end) : 0);
          work *= m * stages_.slownessOf(rankOf_[s]);
          return (starts ? stages_.forwardNs(0, begin) : 0) + work <= time && fits(s, begin, end);
        });
      };
      const double most = (m + 1) * 2 * stages_.workNs(0, stages_.operators()) + 1;
      if (std::optional<Boundaries> best = least(most, cutFor))
        found_.insert(std::move(*best));
    }
  }

  void addSmallest(const MemoryProfile &profile) {
    auto cutFor = [&](double bytes) {
      return cut([&](size_t s, size_t begin, size_t end) {
        return bytesOf(s, begin, end, profile) <= bytes;
      });
    };
    const size_t all = stages_.operators();
    double crossing = 0;
    for (size_t place : start_)
      crossing = std::max(crossing, stages_.crossingBytes(place));
    const double copies =
        double(*std::max_element(profile.inFlight.begin(), profile.inFlight.end()) + 1);
    const double most = stages_.fixedBytes(0, all) +
                        copies * (stages_.keptBytes(0, all) + crossing) * shape_.share + 1;
    if (std::optional<Boundaries> best = least(most, cutFor))
      found_.insert(std::move(*best));
  }

  const TrainingStages &stages_;
  const TrainingShape &shape_;
  const std::vector<size_t> start_; // of stretches, and the end
  const std::vector<size_t> rankOf_;
  std::set<Boundaries> found_;
};

/// The earliest time at which each operator can end, for any cut: every device is free.
std::vector<double> earliestEnds(const TrainingStages &stages, double factor) {
  const std::vector<CostRow> &rows = stages.problem().table.rows;
  std::vector<double> end;
  for (const CostRow &row : rows) {
    double start = 0;
    for (uint32_t maker : row.reads)
      start = std::max(start, end[maker]);
    end.push_back(start + double(row.forwardNs) * factor);
  }
  return end;
}

/// One micro-batch forward to some operator, and its gradient back.
double longestWay(const TrainingStages &stages, const std::vector<double> &ends, double factor) {
  const std::vector<CostRow> &rows = stages.problem().table.rows;
  std::vector<double> back;
  double longest = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    double rest = 0;
    for (uint32_t maker : rows[i].reads)
      rest = std::max(rest, stages.hasGradient(maker) ? back[maker] : 0);
    back.push_back(rest + double(rows[i].inputGradNs) * factor);
    longest = std::max(longest, ends[i] + back[i]);
  }
  return longest;
}

/// Whether there is a pipeline of one stage per rank whose ranks all end by `time`, if each rank
/// may start as soon as the inputs of its first stretch can arrive. A stage may end anywhere before
/// the furthest place that it can reach. This allows more pipelines than exist, so the bound holds.
bool reachesEnd(const TrainingStages &stages, const std::vector<size_t> &start,
                const std::vector<double> &ready, double microBatchWork, double time) {
  size_t furthest = 0;
  for (size_t s = 0; s < stages.problem().ranks; ++s) {
    size_t reached = furthest;
    const double factor = microBatchWork * stages.slownessOf(s);
    for (size_t begin = 0; begin <= furthest && begin + 1 < start.size(); ++begin)
      while (reached + 1 < start.size() &&
             ready[begin] + factor * stages.workNs(start[begin], start[reached + 1]) +
                     stages.slownessOf(s) * stages.updateNs(start[begin], start[reached + 1]) <=
                 time)
        ++reached;
    furthest = reached;
  }
  return furthest + 1 == start.size();
}

} // namespace

size_t countCuts(size_t places, size_t cuts, size_t most) {
  if (cuts > places)
    return 0;
  double ways = 1;
  for (size_t i = 0; i < std::min(cuts, places - cuts); ++i) {
    ways = ways * double(places - i) / double(i + 1);
    if (ways > double(most))
      return most + 1;
  }
  return static_cast<size_t>(std::llround(ways));
}

std::vector<Boundaries> everyCut(const std::vector<size_t> &places, size_t cuts) {
  std::vector<Boundaries> result;
  if (cuts > places.size())
    return result;
  std::vector<size_t> chosen(cuts);
  for (size_t i = 0; i < cuts; ++i)
    chosen[i] = i;
  while (true) {
    Boundaries &boundaries = result.emplace_back();
    for (size_t place : chosen)
      boundaries.push_back(places[place]);
    size_t i = cuts;
    while (i > 0 && chosen[i - 1] == places.size() - cuts + i - 1)
      --i;
    if (i == 0)
      return result;
    ++chosen[i - 1];
    for (; i < cuts; ++i)
      chosen[i] = chosen[i - 1] + 1;
  }
}

std::vector<Boundaries> promisingCuts(const TrainingStages &stages, const TrainingShape &shape,
                                      bool byLimit) {
  return Cutter(stages, shape).run(byLimit);
}

int64_t anyCutLowerBound(const TrainingStages &stages, const TrainingShape &shape) {
  const TrainingProblem &problem = stages.problem();
  double fastest = 1, speed = 0;
  for (size_t r = 0; r < problem.ranks; ++r)
    fastest = std::min(fastest, stages.slownessOf(r));
  for (size_t d = 0; d < std::min(problem.ranks, problem.cluster.devices.size()); ++d)
    speed += 1 / stages.slownessOf(d);
  const double m = double(shape.microBatches), factor = shape.share * fastest;
  // Ranks of one device may update beside each other.
  const bool updates = problem.ranks <= problem.cluster.devices.size();
  const double whole = m * shape.share * stages.workNs(0, stages.operators()) +
                       (updates ? stages.updateNs(0, stages.operators()) : 0);
  double bound = whole / speed;
  const std::vector<double> ends = earliestEnds(stages, factor);
  bound = std::max(bound, longestWay(stages, ends, factor));
  const std::vector<size_t> start = stretchStarts(stages);
  std::vector<double> ready(start.size(), 0);
  for (size_t c = 0; c + 1 < start.size(); ++c) {
    bound = std::max(bound, m * factor * stages.workNs(start[c], start[c + 1]));
    for (size_t i = start[c]; i < start[c + 1]; ++i)
      for (uint32_t maker : problem.table.rows[i].reads)
        if (maker < start[c])
          ready[c] = std::max(ready[c], ends[maker]);
  }
  if (shape.chunks == 1 && problem.ranks <= problem.cluster.devices.size()) {
    double low = bound, high = 2 * whole + 1;
    for (int i = 0; i < kBisections && low < high; ++i) {
      const double middle = (low + high) / 2;
      (reachesEnd(stages, start, ready, m * shape.share, middle) ? high : low) = middle;
    }
    bound = std::max(bound, low);
  }
  return static_cast<int64_t>(std::floor(bound));
}

} // namespace pipec
