// The search. A chain of ideals from all nodes down to none is a pipeline from its last stage to
// its first; a label at an ideal says how many devices and copies the stages after it take. For a
// threshold T only stages that need at most T are looked at, so of a stage and a tensor degree the
// fewest copies that will do are enough; T is halved towards the best.
#include "compiler/planner/hybrid/Hybrid.h"

#include "compiler/planner/hybrid/HybridScore.h"
#include "compiler/planner/hybrid/HybridStages.h"
#include "ir/support/Check.h"
#include "ir/support/Try.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

namespace pipec {

namespace {

constexpr double kDigits = 1e-9; // relative distance of the result from the best

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
    graph.order.emplace_back(edge.from, edge.to);
  Groups groups(n);
  Items items = makeItems(graph, groups);
  if (items.size() < n)
    return failf(ExitCode::Usage, "expected a graph without cycles, got {} nodes in cycles",
                 n - items.size());
  return items;
}

class HybridSearch {
public:
  HybridSearch(const HybridProblem &problem, const HybridOptions &options, const Items &items)
      : problem_(problem), options_(options), deadline_(options.seconds), ideals_(items),
        nodes_(items) {}

  llvm::Expected<HybridPlan> run() {
    if (!ideals_.addAll(options_.bytes, deadline_))
      return failf(ExitCode::Usage, "expected few ideals, got more than {}", ideals_.size());
    prepare();
    plan_.ideals = ideals_.size();
    stages_->limitMemory(problem_.memory);
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

  void prepare() {
    stages_.emplace(problem_, nodes_, ideals_);
    for (int64_t d = 1; d <= std::min(problem_.microBatches, problem_.devices); ++d)
      if (problem_.microBatches % d == 0)
        dataDegrees_.push_back(d);
    byWork_.resize(ideals_.size());
    std::iota(byWork_.begin(), byWork_.end(), 0);
    byCount_ = byWork_;
    std::stable_sort(byWork_.begin(), byWork_.end(),
                     [&](uint32_t a, uint32_t b) { return stages_->work(a) < stages_->work(b); });
    std::stable_sort(byCount_.begin(), byCount_.end(),
                     [&](uint32_t a, uint32_t b) { return ideals_.count(a) > ideals_.count(b); });
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
    const double least = stages_->work(ideal) - left * threshold_ * (1 + kHybridSlack);
    auto at = threshold_ == kUnlimited
                  ? byWork_.begin()
                  : std::lower_bound(byWork_.begin(), byWork_.end(), least,
                                     [&](uint32_t i, double w) { return stages_->work(i) < w; });
    for (; at != byWork_.end(); ++at) {
      const uint32_t next = *at;
      if (stages_->work(next) > stages_->work(ideal) || (most == 1 && stages_->work(next) > 0) ||
          (threshold_ < kUnlimited &&
           stages_->work(next) > (left - 1) * threshold_ * (1 + kHybridSlack)))
        break;
      if (most == 1 && next != 0) // the last device takes all
        continue;
      if (ideals_.count(next) < ideals_.count(ideal) && ideals_.subset(next, ideal))
        extend(ideal, next, most);
    }
  }

  /// `most`: devices that are left.
  void extend(uint32_t ideal, uint32_t next, int64_t most) {
    for (const uint32_t degree : stages_->degrees()) {
      std::vector<uint32_t> open(labels_[ideal].size()); // no number of copies has done yet
      std::iota(open.begin(), open.end(), 0);
      for (int64_t copies : dataDegrees_) {
        const int64_t rest = most - copies * degree;
        if (open.empty() || rest < 0 ||
            (threshold_ < kUnlimited &&
             stages_->work(next) > static_cast<double>(rest) * threshold_ * (1 + kHybridSlack)))
          break;
        if (stages_->leastTime({ideal, next, degree, copies, 0}) > threshold_)
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
            found->second = stageFits({ideal, next, degree, copies, inFlight});
          if (found->second)
            addLabel(next, {devices, all, ideal, index, copies, degree});
          return found->second;
        };
        open.erase(std::remove_if(open.begin(), open.end(), done), open.end());
      }
    }
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

  bool stageFits(const HybridStageKey &key) {
    const ChoiceAnswer answer = stages_->fits(key, threshold_);
    unknown_ |= answer == ChoiceAnswer::Unknown;
    return answer == ChoiceAnswer::Yes;
  }

  // --- the result

  /// False: the plan breaks a rule, which would be a mistake of this search.
  bool rebuild() {
    HybridPlan found = plan_;
    found.stages.clear();
    for (uint32_t ideal = 0, index = 0; ideal != ideals_.full();) {
      const Label label = labels_[ideal][index];
      const HybridStageKey key{label.from, ideal, label.tensorDegree, label.dataDegree,
                               (label.copies + label.dataDegree - 1) / label.dataDegree};
      HybridStage stage;
      if (stages_->rebuild(key, threshold_, stage) != ChoiceAnswer::Yes) {
        unknown_ = true;
        return false;
      }
      found.stages.push_back(std::move(stage));
      ideal = label.from;
      index = label.fromLabel;
    }
    HybridProblem limited = problem_;
    limited.memory = stages_->memoryLimit();
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
    double low =
        stages_->work(ideals_.full()) / static_cast<double>(problem_.devices) * (1 - kHybridSlack);
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
    // A threshold at which nothing was found, above a plan that was.
    PIPEC_ASSERT(certain <= plan_.score.value * (1 + kDigits), "a plan is better than any can be");
    plan_.lowerBound = std::min(certain, plan_.score.value);
    plan_.proved = plan_.score.value - certain <= kDigits * plan_.score.value && wrong_.empty();
  }

  /// Halves the distance between too little memory and enough.
  llvm::Error tooLittle() {
    if (!wrong_.empty())
      return failf(ExitCode::Internal, "search: {}", wrong_);
    stages_->limitMemory(kUnlimited);
    if (timeUp_ || !solve(kUnlimited))
      return failf(ExitCode::NoPlan, "no plan on {} devices{}", problem_.devices,
                   timeUp_ ? ": the time limit passed" : "");
    double low = problem_.memory;
    while (plan_.score.memory - low > kDigits * plan_.score.memory && !timeUp_) {
      const double middle =
          std::min((low + plan_.score.memory) / 2, plan_.score.memory * (1 - kDigits / 2));
      stages_->limitMemory(middle);
      if (!solve(kUnlimited))
        low = middle;
    }
    return makeError(ExitCode::NoPlan,
                     fmt::format("memory: expected at least {:.0f} bytes on each of {} devices, "
                                 "got {:.0f}",
                                 std::ceil(plan_.score.memory), problem_.devices, problem_.memory),
                     helpWithMemory());
  }

  /// More devices help if there are nodes or copies of nodes for them, and if each node fits alone.
  std::string helpWithMemory() const {
    double largest = 0;
    int64_t degrees = 0; // the largest of every node
    for (const HybridNode &node : problem_.nodes) {
      double least = kUnlimited;
      for (const auto &[degree, variants] : node.variants)
        for (const HybridVariant &variant : variants)
          least = std::min(least, variant.bytesInFlight + variant.fixedBytes);
      largest = std::max(largest, least);
      if (!node.variants.empty())
        degrees += node.variants.rbegin()->first;
    }
    if (largest > problem_.memory)
      return fmt::format("use devices with more memory: a node needs {:.0f} bytes alone", largest);
    return problem_.devices < degrees ? "use devices with more memory, or more devices"
                                      : "use devices with more memory";
  }

  const HybridProblem &problem_;
  const HybridOptions options_;
  Deadline deadline_;
  Ideals ideals_;
  const Items &nodes_;
  std::optional<HybridStages> stages_; // once all ideals are there
  std::vector<int64_t> dataDegrees_;
  std::vector<uint32_t> byWork_, byCount_;

  double threshold_ = kUnlimited;
  std::vector<std::vector<Label>> labels_;
  bool timeUp_ = false;
  bool unknown_ = false; // some choice of variants took too many steps: it counts as none
  std::string wrong_;
  HybridPlan plan_;
};

} // namespace

llvm::Expected<HybridPlan> planHybrid(const HybridProblem &problem, const HybridOptions &options) {
  TRY(checkHybrid(problem));
  Items items = TRY(itemsOf(problem));
  return HybridSearch(problem, options, items).run();
}

} // namespace pipec
