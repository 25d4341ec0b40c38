#include "compiler/planner/ForwardSearch.h"

#include "ir/schedule/ClusterCosts.h"
#include "ir/schedule/ForwardOnly.h"
#include "ir/schedule/Lower.h"
#include "ir/support/Check.h"
#include "ir/support/ListCut.h"
#include "ir/support/Quantities.h"
#include "ir/support/Try.h"
#include "ir/support/Words.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>

namespace pipec {

namespace {

constexpr size_t kMostOrdered = 6;        // devices of which every order is tried
constexpr int64_t kMostMicroBatches = 64; // unless the request has a number
constexpr size_t kMostSimulated = 64;     // of each kind of placement, those that promise most
constexpr double kIdlePart = 0.1;         // of a step, for which more micro-batches are no worth

class ForwardSearch {
public:
  explicit ForwardSearch(const ForwardProblem &problem)
      : problem_(problem), stages_(problem.stageNs.size()) {
    for (size_t rank = 0; rank < problem.ranks; ++rank)
      slow_.push_back(slowness(problem.cluster, problem.cluster.deviceOfRank(rank)));
  }

  llvm::Expected<ForwardPlan> run() {
    if (problem_.ranks < 1 || problem_.ranks > stages_ || problem_.cluster.devices.empty() ||
        problem_.plan.stages.size() != stages_)
      return failf(ExitCode::Usage,
                   "expected at most as many ranks as stages, and their costs, got {} ranks, {} "
                   "stages and {} costs",
                   problem_.ranks, problem_.plan.stages.size(), stages_);
    listOrders();
    if (problem_.microBatches > 0)
      return solve(problem_.microBatches);
    for (int64_t m = 1;; m *= 2) {
      llvm::Expected<ForwardPlan> plan = solve(m);
      if (!plan || plan->bubble <= kIdlePart || m >= kMostMicroBatches)
        return plan;
    }
  }

private:
  /// The ranks in the order in which the pipeline may visit them: one of every sequence of kinds.
  void listOrders() {
    std::vector<size_t> order(problem_.ranks);
    std::iota(order.begin(), order.end(), 0);
    orders_ = {problem_.order.size() == problem_.ranks ? problem_.order : order};
    const bool same =
        std::all_of(slow_.begin(), slow_.end(), [&](double s) { return s == slow_[0]; });
    if (same || problem_.ranks > kMostOrdered)
      return;
    std::set<std::vector<double>> seen;
    orders_.clear();
    do {
      std::vector<double> kinds;
      for (size_t rank : order)
        kinds.push_back(slow_[rank]);
      if (seen.insert(kinds).second)
        orders_.push_back(order);
    } while (std::next_permutation(order.begin(), order.end()));
  }

  double timeOn(size_t stage, size_t rank) const {
    return double(problem_.stageNs[stage]) * slow_[rank];
  }

  llvm::Expected<ForwardPlan> solve(int64_t microBatches) {
    microBatches_ = microBatches;
    best_.reset();
    least_ = INT64_MAX;
    struct Candidate {
      double bound;
      size_t kind;
      std::vector<size_t> rankOfStage;
    };
    std::vector<Candidate> candidates;
    for (const std::vector<size_t> &order : orders_) {
      const std::vector<std::vector<size_t>> placements = placementsFor(order);
      for (size_t kind = 0; kind < placements.size(); ++kind)
        if (fits(placements[kind]))
          candidates.push_back({boundOf(placements[kind]), kind, placements[kind]});
    }
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const auto &a, const auto &b) { return a.bound < b.bound; });
    std::map<size_t, size_t> simulated; // by kind, since the bounds of kinds differ in quality
    for (const Candidate &candidate : candidates) {
      if (best_ && candidate.bound >= double(best_->stepNs))
        break;
      if (simulated[candidate.kind]++ < kMostSimulated)
        TRY(consider(candidate.rankOfStage));
    }
    if (!best_)
      return makeError(ExitCode::NoPlan,
                       fmt::format("no placement of {} on {} fits: expected at least {} per "
                                   "device, got {}",
                                   counted(stages_, "stage"), counted(problem_.ranks, "rank"),
                                   exactBytes(least_), exactBytes(limitOf(leastRank_))),
                       helpWithMemory());
    best_->microBatches = microBatches;
    // Times of stages are whole nanoseconds, rounded down.
    PIPEC_ASSERT(double(lowerBound()) <=
                     double(best_->stepNs) + double(stages_) * double(microBatches),
                 "a placement is faster than any can be");
    best_->lowerBoundNs = std::min(lowerBound(), best_->stepNs);
    best_->placements = candidates.size();
    return *best_;
  }

  std::vector<std::vector<size_t>> placementsFor(const std::vector<size_t> &order) const {
    std::vector<size_t> even, loop;
    for (size_t s = 0; s < stages_; ++s) {
      even.push_back(order[s * order.size() / stages_]);
      loop.push_back(order[s % order.size()]);
    }
    std::vector<std::vector<size_t>> placements = {even};
    const std::vector<size_t> balanced = balancedBlocks(order);
    if (balanced != even)
      placements.push_back(balanced);
    if (loop != even)
      placements.push_back(loop);
    return placements;
  }

  /// Neighbouring stages on each rank, the busiest with the least to do.
  std::vector<size_t> balancedBlocks(const std::vector<size_t> &order) const {
    std::vector<int64_t> before(stages_ + 1, 0);
    std::partial_sum(problem_.stageNs.begin(), problem_.stageNs.end(), before.begin() + 1);
    auto load = [&](size_t block, size_t begin, size_t end) {
      return double(before[end] - before[begin]) * slow_[order[block]];
    };
    const std::optional<std::vector<size_t>> begins = cutList({stages_, order.size(), load});
    PIPEC_ASSERT(begins, "there are no more ranks than stages");
    std::vector<size_t> rankOf(stages_);
    for (size_t s = 0; s < stages_; ++s)
      rankOf[s] = order[std::upper_bound(begins->begin(), begins->end(), s) - begins->begin()];
    return rankOf;
  }

  int64_t limitOf(size_t rank) const {
    return problem_.memoryLimit ? problem_.memoryLimit
                                : problem_.cluster.deviceOfRank(rank).memoryBytes;
  }

  /// The missing memory of devices is kept for the message.
  bool fits(const std::vector<size_t> &rankOfStage) {
    if (problem_.stageBytes.empty())
      return true;
    // Ranks that share a device share its memory.
    std::vector<int64_t> bytes(std::min(problem_.ranks, problem_.cluster.devices.size()), 0);
    for (size_t s = 0; s < stages_; ++s)
      bytes[rankOfStage[s] % bytes.size()] += problem_.stageBytes[s];
    int64_t most = 0;
    size_t where = 0;
    for (size_t rank = 0; rank < bytes.size(); ++rank)
      if (limitOf(rank) && bytes[rank] > limitOf(rank) && bytes[rank] > most) {
        most = bytes[rank];
        where = rank;
      }
    if (most > 0 && most < least_) {
      least_ = most;
      leastRank_ = where;
    }
    return most == 0;
  }

  /// Ranks that share a device share its memory. More ranks help if every stage fits alone.
  std::string helpWithMemory() const {
    const int64_t largest =
        *std::max_element(problem_.stageBytes.begin(), problem_.stageBytes.end());
    if (largest > limitOf(leastRank_))
      return fmt::format("raise the memory limit, or cut the model into smaller stages: the "
                         "largest needs {} alone",
                         exactBytes(largest));
    if (stages_ > problem_.ranks)
      return "raise the memory limit, or use more ranks, each on a device of its own: they have "
             "fewer stages per rank";
    return problem_.ranks > problem_.cluster.devices.size()
               ? fmt::format("raise the memory limit, or use more devices: {} share {}",
                             counted(problem_.ranks, "rank"),
                             counted(problem_.cluster.devices.size(), "device"))
               : "raise the memory limit, or choose other cuts: no order of the devices has room "
                 "for these stages";
  }

  /// No run of this placement is shorter: ranks, links and the slowest stage are busy so long.
  double boundOf(const std::vector<size_t> &rankOfStage) const {
    std::vector<double> load(problem_.ranks, 0), times;
    for (size_t s = 0; s < stages_; ++s) {
      times.push_back(timeOn(s, rankOfStage[s]));
      load[rankOfStage[s]] += times[s];
    }
    const double busiest =
        std::max(*std::max_element(load.begin(), load.end()), busiestLink(rankOfStage));
    return std::max(double(microBatches_) * busiest, longestWay(times));
  }

  /// All micro-batches pass a stage one after the other. The first one reaches it through stages
  /// that it reads from, and the last one leaves through stages that read from it. Returns the
  /// largest sum of these times over all stages. Stages on other branches do not count, because two
  /// branches may run at once.
  double longestWay(const std::vector<double> &times) const {
    std::vector<double> before(stages_, 0), after(stages_, 0);
    std::vector<std::set<size_t>> readers(stages_);
    for (const Channel &channel : problem_.plan.channels)
      for (const PortRef &to : channel.to)
        if (channel.kind == Channel::Kind::Activation)
          readers[channel.from.stage].insert(to.stage);
    for (size_t s = 0; s < stages_; ++s)
      for (size_t reader : readers[s])
        before[reader] = std::max(before[reader], before[s] + times[s]);
    double longest = 0;
    for (size_t s = stages_; s-- > 0;) {
      for (size_t reader : readers[s])
        after[s] = std::max(after[s], times[reader] + after[reader]);
      longest = std::max(longest, before[s] + double(microBatches_) * times[s] + after[s]);
    }
    return longest;
  }

  /// The bytes of one micro-batch that go over it.
  double busiestLink(const std::vector<size_t> &rankOfStage) const {
    std::map<std::pair<std::string, std::string>, double> busy; // shared ones, or of two devices
    double most = 0;
    for (const Channel &channel : problem_.plan.channels) {
      if (channel.kind != Channel::Kind::Activation || !channel.tensor.known)
        continue;
      const size_t from = rankOfStage[channel.from.stage];
      const std::string &sender = problem_.cluster.deviceOfRank(from).name;
      std::set<size_t> readers;
      for (const PortRef &to : channel.to)
        readers.insert(rankOfStage[to.stage]);
      for (size_t reader : readers) {
        const std::string &receiver = problem_.cluster.deviceOfRank(reader).name;
        const ClusterLink link = problem_.cluster.linkBetween(sender, receiver);
        if (receiver == sender || link.bytesPerSecond == 0)
          continue;
        double &time =
            busy[link.shared ? std::pair(link.from, link.to) : std::pair(sender, receiver)];
        time += double(channel.tensor.bytes) * 1e9 / double(link.bytesPerSecond);
        most = std::max(most, time);
      }
    }
    return most;
  }

  llvm::Error consider(const std::vector<size_t> &rankOfStage) {
    Plan plan = problem_.plan;
    plan.ranks = problem_.ranks;
    for (size_t s = 0; s < stages_; ++s)
      plan.stages[s].rank = rankOfStage[s];
    const ScheduleShape shape{stages_, microBatches_, rankOfStage, problem_.ranks};
    RunShape run;
    run.microBatches = microBatches_;
    Program program = TRY(lower(forwardOnly(shape), plan, run));
    SimulatedRun simulated =
        TRY(simulate(program, plan, run,
                     forwardCosts(plan, program, problem_.stageNs, problem_.cluster), false));
    if (best_ && simulated.makespan >= best_->stepNs)
      return llvm::Error::success();
    best_.emplace();
    best_->rankOfStage = rankOfStage;
    best_->stepNs = simulated.makespan;
    best_->bubble = idlePart(simulated);
    return llvm::Error::success();
  }

  /// The idle part of the busiest device. Ranks of one device take turns.
  double idlePart(const SimulatedRun &run) const {
    std::vector<int64_t> busy(problem_.cluster.devices.size(), 0);
    for (size_t rank = 0; rank < run.busy.size(); ++rank)
      busy[rank % busy.size()] += run.busy[rank];
    const int64_t most = *std::max_element(busy.begin(), busy.end());
    return run.makespan == 0 ? 0 : 1 - double(most) / double(run.makespan);
  }

  /// All work on all devices at once; one micro-batch after the other through one stage.
  int64_t lowerBound() const {
    const double fastest = *std::min_element(slow_.begin(), slow_.end());
    double work = 0, speed = 0;
    std::vector<double> times;
    for (int64_t ns : problem_.stageNs) {
      work += double(ns);
      times.push_back(fastest * double(ns));
    }
    const size_t devices = std::min(problem_.ranks, problem_.cluster.devices.size());
    for (size_t device = 0; device < devices; ++device)
      speed += 1 / slow_[device];
    return static_cast<int64_t>(std::max(double(microBatches_) * work / speed, longestWay(times)));
  }

  const ForwardProblem &problem_;
  const size_t stages_;
  std::vector<double> slow_; // per rank
  std::vector<std::vector<size_t>> orders_;
  int64_t microBatches_ = 1;
  std::optional<ForwardPlan> best_;
  int64_t least_ = INT64_MAX; // bytes that would have done
  size_t leastRank_ = 0;
};

} // namespace

ProgramCosts forwardCosts(const Plan &plan, const Program &program,
                          const std::vector<int64_t> &stageNs, const Cluster &cluster) {
  ProgramCosts costs;
  for (size_t s = 0; s < stageNs.size(); ++s) {
    StageCosts &stage = costs.stages.emplace_back();
    stage.forward = static_cast<int64_t>(
        double(stageNs[s]) * slowness(cluster, cluster.deviceOfRank(plan.stages[s].rank)));
  }
  placeOn(cluster, program, costs);
  return costs;
}

llvm::Expected<ForwardPlan> planForward(const ForwardProblem &problem) {
  return ForwardSearch(problem).run();
}

} // namespace pipec
