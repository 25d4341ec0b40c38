// The search. A chain of ideals from all nodes down to none is a pipeline from its last stage to
// its first; a label at an ideal says how many devices and copies the stages after it take. For a
// threshold T only stages that need at most T are looked at, so of a stage and a tensor degree the
// fewest copies that will do are enough; T is halved towards the best.
#include "compiler/planner/Hybrid.h"

#include "compiler/planner/Ideals.h"
#include "compiler/planner/VariantChoice.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>
#include <unordered_map>

namespace pipec {

namespace {

constexpr double kDigits = 1e-9;       // relative distance of the result from the best
constexpr double kHybridSlack = 1e-12; // sums of the same numbers in another order differ less

llvm::Error checkHybrid(const HybridProblem &problem) {
  for (const HybridEdge &edge : problem.edges)
    if (edge.from >= problem.nodes.size() || edge.to >= problem.nodes.size())
      return failf(ExitCode::Usage, "edges: expected nodes below {}, got {} -> {}",
                   problem.nodes.size(), edge.from, edge.to);
  for (const HybridNode &node : problem.nodes)
    for (const auto &[degree, variants] : node.variants)
      if (degree < 1 || variants.empty())
        return failf(ExitCode::Usage, "node {}: expected variants for every tensor degree",
                     node.id);
  if (problem.nodes.empty() || problem.devices < 1 || problem.microBatches < 1)
    return failf(ExitCode::Usage,
                 "expected nodes, devices and micro-batches, got {}, {} and {} of them",
                 problem.nodes.size(), problem.devices, problem.microBatches);
  return llvm::Error::success();
}

/// The nodes in an order without edges backwards, as the ideals want them.
llvm::Expected<Items> itemsOf(const HybridProblem &problem) {
  PartitionProblem graph;
  const size_t n = problem.nodes.size();
  graph.kinds.resize(1);
  graph.time.assign(1, std::vector<double>(n, 0));
  graph.memory.assign(n, 0);
  graph.outCost.assign(n, 0);
  for (const HybridEdge &edge : problem.edges)
    graph.edges.emplace_back(edge.from, edge.to);
  Groups groups(n);
  llvm::Expected<Items> items = makeItems(graph, groups);
  if (items && items->size() < n)
    return failf(ExitCode::Usage, "expected a graph without cycles, got {} nodes in cycles",
                 n - items->size());
  return items;
}

class HybridSearch {
public:
  HybridSearch(const HybridProblem &problem, const HybridOptions &options, Items items)
      : problem_(problem), options_(options), deadline_(options.seconds), items_(std::move(items)),
        ideals_(items_) {}

  llvm::Expected<HybridPlan> run() {
    if (!ideals_.addAll(options_.bytes, deadline_))
      return failf(ExitCode::Usage, "expected few ideals, got more than {}", ideals_.size());
    prepare();
    plan_.ideals = ideals_.size();
    memory_ = problem_.memory;
    if (!solve(kUnlimited))
      return tooLittle();
    narrow();
    return std::move(plan_);
  }

private:
  struct Label {
    int64_t devices, copies; // of this ideal's stage and all later ones
    uint32_t from, fromLabel;
    int64_t dataDegree;
    uint32_t tensorDegree;
  };
  /// What a tensor degree costs at least, summed over an ideal's nodes.
  struct Sums {
    std::vector<double> time, parameters, inFlight, fixed; // per ideal
  };

  void prepare() {
    std::set<uint32_t> degrees;
    for (const auto &[degree, variants] : problem_.nodes[0].variants)
      degrees.insert(degree);
    for (const HybridNode &node : problem_.nodes)
      for (auto it = degrees.begin(); it != degrees.end();)
        it = node.variants.count(*it) ? std::next(it) : degrees.erase(it);
    for (int64_t d = 1; d <= std::min(problem_.microBatches, problem_.devices); ++d)
      if (problem_.microBatches % d == 0)
        dataDegrees_.push_back(d);
    nodeOfItem_.resize(items_.size());
    for (uint32_t node = 0; node < items_.itemOf.size(); ++node)
      nodeOfItem_[items_.itemOf[node]] = node;
    std::vector<double> work(problem_.nodes.size(), kUnlimited);
    for (uint32_t degree : degrees) {
      for (const HybridNode &node : problem_.nodes)
        variants_[degree].push_back(&node.variants.at(degree));
      std::vector<HybridVariant> least;
      for (size_t v = 0; v < problem_.nodes.size(); ++v) {
        least.push_back(leastOf(problem_.nodes[v].variants.at(degree)));
        work[v] = std::min(work[v], least.back().time * degree);
      }
      auto summed = [&](double HybridVariant::*field) {
        return sumOverIdeals([&](size_t v) { return least[v].*field; });
      };
      sums_[degree] = {summed(&HybridVariant::time), summed(&HybridVariant::parameterBytes),
                       summed(&HybridVariant::bytesInFlight), summed(&HybridVariant::fixedBytes)};
    }
    work_ = sumOverIdeals([&](size_t v) { return work[v]; });
    byWork_.resize(ideals_.size());
    std::iota(byWork_.begin(), byWork_.end(), 0);
    byCount_ = byWork_;
    std::stable_sort(byWork_.begin(), byWork_.end(),
                     [&](uint32_t a, uint32_t b) { return work_[a] < work_[b]; });
    std::stable_sort(byCount_.begin(), byCount_.end(),
                     [&](uint32_t a, uint32_t b) { return ideals_.count(a) > ideals_.count(b); });
    edgesOf_.resize(problem_.nodes.size());
    for (uint32_t e = 0; e < problem_.edges.size(); ++e) {
      edgesOf_[problem_.edges[e].from].push_back(e);
      edgesOf_[problem_.edges[e].to].push_back(e);
    }
  }

  static HybridVariant leastOf(const std::vector<HybridVariant> &variants) {
    HybridVariant least = variants[0];
    for (const HybridVariant &variant : variants)
      for (auto field : {&HybridVariant::time, &HybridVariant::parameterBytes,
                         &HybridVariant::bytesInFlight, &HybridVariant::fixedBytes})
        least.*field = std::min(least.*field, variant.*field);
    return least;
  }

  template <typename F> std::vector<double> sumOverIdeals(F &&of) const {
    std::vector<double> sums(ideals_.size(), 0);
    for (uint32_t ideal = 0; ideal < ideals_.size(); ++ideal)
      for (uint32_t item = 0; item < items_.size(); ++item)
        if (ideals_.contains(ideal, item))
          sums[ideal] += of(nodeOfItem_[item]);
    return sums;
  }

  // --- one threshold

  /// Fills plan_ when stages of at most `threshold` are enough.
  bool solve(double threshold) {
    threshold_ = threshold;
    labels_.assign(ideals_.size(), {});
    labels_[ideals_.full()].push_back({0, 0, 0, 0, 0, 0});
    for (uint32_t ideal : byCount_) {
      if (labels_[ideal].empty() || ideal == 0)
        continue;
      if (deadline_.passed()) {
        timeUp_ = true;
        return false;
      }
      extend(ideal);
    }
    if (labels_[0].empty())
      return false;
    return rebuild();
  }

  void extend(uint32_t ideal) {
    int64_t most = 0; // devices that are left
    for (const Label &label : labels_[ideal])
      most = std::max(most, problem_.devices - label.devices);
    const auto left = static_cast<double>(most);
    // The work that is left over, and that of the stage, must fit the devices.
    const double least = work_[ideal] - left * threshold_ * (1 + kHybridSlack);
    auto at = threshold_ == kUnlimited
                  ? byWork_.begin()
                  : std::lower_bound(byWork_.begin(), byWork_.end(), least,
                                     [&](uint32_t i, double w) { return work_[i] < w; });
    for (; at != byWork_.end(); ++at) {
      const uint32_t next = *at;
      if (work_[next] > work_[ideal] || (most == 1 && work_[next] > 0) ||
          (threshold_ < kUnlimited && work_[next] > (left - 1) * threshold_ * (1 + kHybridSlack)))
        break;
      if (most == 1 && next != 0) // the last device takes all
        continue;
      if (ideals_.count(next) < ideals_.count(ideal) && ideals_.subset(next, ideal))
        extend(ideal, next, most);
    }
  }

  /// `most`: devices that are left.
  void extend(uint32_t ideal, uint32_t next, int64_t most) {
    pair_.reset();
    for (const auto &[degree, sums] : sums_) {
      std::vector<uint32_t> open(labels_[ideal].size()); // no number of copies has done yet
      std::iota(open.begin(), open.end(), 0);
      for (int64_t copies : dataDegrees_) {
        const int64_t rest = most - copies * degree;
        if (open.empty() || rest < 0 ||
            (threshold_ < kUnlimited &&
             work_[next] > static_cast<double>(rest) * threshold_ * (1 + kHybridSlack)))
          break;
        if (leastTime(sums, ideal, next, copies) > threshold_)
          continue;
        std::map<int64_t, bool> fits; // by micro-batches in flight
        auto done = [&](uint32_t index) {
          const Label label = labels_[ideal][index];
          const int64_t devices = label.devices + copies * degree, all = label.copies + copies;
          if (devices > problem_.devices || all > problem_.microBatches)
            return true; // more of them are too many as well
          const int64_t inFlight = (all + copies - 1) / copies;
          auto [found, isNew] = fits.try_emplace(inFlight, false);
          if (isNew)
            found->second = stageFits(sums, {ideal, next, degree, copies, inFlight});
          if (found->second)
            addLabel(next, {devices, all, ideal, index, copies, degree});
          return found->second;
        };
        open.erase(std::remove_if(open.begin(), open.end(), done), open.end());
      }
    }
  }

  /// Without transfers.
  double leastTime(const Sums &sums, uint32_t ideal, uint32_t next, int64_t copies) const {
    const auto d = static_cast<double>(copies);
    return ((sums.time[ideal] - sums.time[next]) / d +
            4 * (d - 1) / d * (sums.parameters[ideal] - sums.parameters[next]) /
                static_cast<double>(problem_.microBatches) / problem_.bandwidth) *
           (1 - kHybridSlack);
  }

  void addLabel(uint32_t ideal, const Label &label) {
    std::vector<Label> &labels = labels_[ideal];
    for (const Label &other : labels)
      if (other.devices <= label.devices && other.copies <= label.copies)
        return;
    labels.erase(std::remove_if(labels.begin(), labels.end(),
                                [&](const Label &other) {
                                  return label.devices <= other.devices &&
                                         label.copies <= other.copies;
                                }),
                 labels.end());
    labels.push_back(label);
  }

  // --- one stage

  /// The nodes between two ideals and what crosses their border.
  struct Pair {
    std::vector<uint32_t> nodes;
    double bytes = 0;                            // over all crossing edges
    std::vector<std::vector<uint32_t>> crossing; // per node: edges
  };

  const Pair &pairOf(uint32_t ideal, uint32_t next) {
    if (pair_)
      return *pair_;
    Pair pair;
    auto inside = [&](uint32_t node) {
      const uint32_t item = items_.itemOf[node];
      return ideals_.contains(ideal, item) && !ideals_.contains(next, item);
    };
    for (uint32_t node = 0; node < problem_.nodes.size(); ++node) {
      if (!inside(node))
        continue;
      pair.nodes.push_back(node);
      pair.crossing.emplace_back();
      for (uint32_t e : edgesOf_[node]) {
        const HybridEdge &edge = problem_.edges[e];
        if (inside(edge.from == node ? edge.to : edge.from))
          continue;
        pair.crossing.back().push_back(e);
        pair.bytes += 2 * edge.bytes;
      }
    }
    return pair_.emplace(std::move(pair));
  }

  /// Between which the time of a stage lies; a threshold between them narrows it.
  struct StageKey {
    uint32_t ideal, next, degree;
    int64_t copies, inFlight;
    bool operator==(const StageKey &) const = default;
  };
  struct StageKeyHash {
    size_t operator()(const StageKey &key) const {
      uint64_t hash = key.ideal;
      for (uint64_t part :
           {uint64_t(key.next), uint64_t(key.degree), uint64_t(key.copies), uint64_t(key.inFlight)})
        hash = (hash ^ part) * 0x9E3779B97F4A7C15u + (hash >> 29);
      return hash;
    }
  };

  bool stageFits(const Sums &sums, const StageKey &key) {
    const double memory =
        (sums.inFlight[key.ideal] - sums.inFlight[key.next]) * static_cast<double>(key.inFlight) +
        sums.fixed[key.ideal] - sums.fixed[key.next];
    if (memory * (1 - kHybridSlack) > memory_)
      return false;
    auto [found, isNew] = known_.try_emplace(key);
    ChoiceBounds &bounds = found->second;
    if (isNew) {
      const double transfers = price(pairOf(key.ideal, key.next), key);
      bounds = boundChoice(table_, memory_ * (1 - kHybridSlack));
      bounds.atLeast += transfers;
      bounds.atMost += transfers;
    }
    if (bounds.atLeast > threshold_ || bounds.atLeast == kUnlimited)
      return false;
    if (bounds.atMost <= threshold_)
      return true;
    std::vector<uint32_t> choice;
    const ChoiceAnswer answer = choose(key, threshold_, choice);
    if (answer == ChoiceAnswer::Yes)
      bounds.atMost = threshold_;
    else if (answer == ChoiceAnswer::No)
      bounds.atLeast = std::nextafter(threshold_, kUnlimited);
    unknown_ |= answer == ChoiceAnswer::Unknown;
    return answer == ChoiceAnswer::Yes;
  }

  ChoiceAnswer choose(const StageKey &key, double threshold, std::vector<uint32_t> &choice) {
    const double transfers = price(pairOf(key.ideal, key.next), key);
    return chooseVariants(table_, threshold - transfers, memory_ * (1 - kHybridSlack), choice);
  }

  /// Fills the table of variants; the time of the transfers that no variant changes.
  double price(const Pair &pair, const StageKey &key) {
    const auto d = static_cast<double>(key.copies), inFlight = static_cast<double>(key.inFlight);
    table_.clear();
    for (size_t i = 0; i < pair.nodes.size(); ++i) {
      const uint32_t node = pair.nodes[i];
      for (const HybridVariant &variant : *variants_.at(key.degree)[node]) {
        double sync = 0;
        for (uint32_t e : pair.crossing[i]) {
          const HybridEdge &edge = problem_.edges[e];
          const bool sends = edge.from == node;
          const auto &of = sends ? variant.syncBackward : variant.syncForward;
          const auto found = of.find(sends ? edge.to : edge.from);
          sync += found == of.end() ? 0 : 2 * found->second;
        }
        const double resync =
            4 * (d - 1) / d * variant.parameterBytes / static_cast<double>(problem_.microBatches);
        table_.costs.push_back({variant.time / d + (sync / d + resync) / problem_.bandwidth,
                                variant.bytesInFlight * inFlight + variant.fixedBytes});
      }
      table_.endItem();
    }
    return pair.bytes / d / problem_.bandwidth;
  }

  // --- the result

  /// False: the plan breaks a rule, which would be a mistake of this search.
  bool rebuild() {
    HybridPlan found = plan_;
    found.stages.clear();
    for (uint32_t ideal = 0, index = 0; ideal != ideals_.full();) {
      const Label label = labels_[ideal][index];
      HybridStage stage;
      pair_.reset();
      stage.nodes = pairOf(label.from, ideal).nodes;
      stage.dataDegree = label.dataDegree;
      stage.tensorDegree = label.tensorDegree;
      const StageKey key{label.from, ideal, label.tensorDegree, label.dataDegree,
                         (label.copies + label.dataDegree - 1) / label.dataDegree};
      const double time = std::min(threshold_, known_.at(key).atMost) * (1 + kHybridSlack);
      if (choose(key, time, stage.variant) != ChoiceAnswer::Yes) {
        unknown_ = true;
        return false;
      }
      found.stages.push_back(std::move(stage));
      ideal = label.from;
      index = label.fromLabel;
    }
    HybridProblem limited = problem_;
    limited.memory = memory_;
    llvm::Expected<HybridScore> score = scoreHybrid(limited, found.stages);
    if (!score) {
      wrong_ = describe(score.takeError()).message;
      return false;
    }
    found.score = *score;
    plan_ = std::move(found);
    return true;
  }

  void narrow() {
    double low = work_[ideals_.full()] / static_cast<double>(problem_.devices) * (1 - kHybridSlack);
    double certain = low;
    while (plan_.score.value - low > kDigits * plan_.score.value) {
      const double high = plan_.score.value,
                   middle = std::min((low + high) / 2, high * (1 - kDigits / 2));
      unknown_ = false;
      if (solve(middle))
        continue;
      if (timeUp_)
        break;
      low = middle;
      if (!unknown_)
        certain = middle;
    }
    plan_.lowerBound = std::min(certain, plan_.score.value);
    plan_.proved = plan_.score.value - certain <= kDigits * plan_.score.value && wrong_.empty();
  }

  /// Halves the distance between too little memory and enough.
  llvm::Error tooLittle() {
    if (!wrong_.empty())
      return failf(ExitCode::Internal, "search: {}", wrong_);
    memory_ = kUnlimited;
    known_.clear();
    if (timeUp_ || !solve(kUnlimited))
      return failf(ExitCode::NoPlan, "no plan on {} devices{}", problem_.devices,
                   timeUp_ ? ": time was up" : "");
    double low = problem_.memory;
    while (plan_.score.memory - low > kDigits * plan_.score.memory && !timeUp_) {
      memory_ = std::min((low + plan_.score.memory) / 2, plan_.score.memory * (1 - kDigits / 2));
      known_.clear();
      if (!solve(kUnlimited))
        low = memory_;
    }
    return makeError(ExitCode::NoPlan,
                     fmt::format("memory: expected at least {:.0f} bytes on each of {} devices, "
                                 "got {:.0f}",
                                 std::ceil(plan_.score.memory), problem_.devices, problem_.memory),
                     "more devices need less memory each");
  }

  const HybridProblem &problem_;
  const HybridOptions options_;
  Deadline deadline_;
  Items items_;
  Ideals ideals_;
  std::vector<uint32_t> nodeOfItem_;
  std::vector<int64_t> dataDegrees_;
  std::map<uint32_t, Sums> sums_; // per tensor degree
  std::map<uint32_t, std::vector<const std::vector<HybridVariant> *>> variants_; // and node
  std::vector<double> work_; // per ideal: time * devices, at least
  std::vector<uint32_t> byWork_, byCount_;
  std::vector<std::vector<uint32_t>> edgesOf_;

  double threshold_ = kUnlimited, memory_ = kUnlimited;
  std::vector<std::vector<Label>> labels_;
  std::optional<Pair> pair_; // the one being looked at
  VariantTable table_;
  std::unordered_map<StageKey, ChoiceBounds, StageKeyHash> known_; // for memory_
  bool timeUp_ = false;
  bool unknown_ = false; // some choice of variants took too many steps: it counts as none
  std::string wrong_;
  HybridPlan plan_;
};

} // namespace

llvm::Expected<HybridPlan> planHybrid(const HybridProblem &problem, const HybridOptions &options) {
  if (llvm::Error error = checkHybrid(problem))
    return std::move(error);
  llvm::Expected<Items> items = itemsOf(problem);
  if (!items)
    return items.takeError();
  return HybridSearch(problem, options, std::move(*items)).run();
}

} // namespace pipec
