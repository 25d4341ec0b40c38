#include "compiler/PlanCuts.h"

#include "compiler/CutBounds.h"
#include "compiler/MeasureCosts.h"
#include "compiler/StageMemory.h"
#include "compiler/planner/Partition.h"
#include "compiler/planner/SketchPlan.h"
#include "ir/plan/Check.h"
#include "ir/plan/Quantities.h"
#include "ir/plan/Words.h"
#include "passes/LinearPartition.h"
#include "passes/analysis/OperatorOrder.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>

namespace pipec {

namespace {

constexpr double kAsGood = 1.02;
constexpr double kWorthMoving = 0.99;         // as much less as moving operators must promise
constexpr double kRounding = 1e-6;            // of sums of costs, relative
constexpr size_t kMostPlacesForSearch = 5000; // beyond them program order and simple bounds
constexpr size_t kMostBytesForSearch = size_t(256) << 20;

class CutPlanner {
public:
  CutPlanner(const Model &model, const CutRequest &request)
      : model_(model), request_(request), top_(topLevelOf(model)), legality_(model, top_),
        legal_(legality_.all()), graph_(operatorGraph(model)),
        weights_(weightStorages(model, graph_)), memory_(graph_, weights_, outputBytes()) {
    makeProblem();
  }

  /// The best of all orders that compute the same, or program order where that is as good.
  llvm::Expected<CutPlan> run() {
    if (llvm::Error error = legality_.enoughFor(request_.stages - 1))
      return std::move(error);
    if (leastMemory() > limit())
      return inAnyOrderThatFits();
    llvm::Expected<CutPlan> plan = inOrder();
    if (!plan)
      return plan;
    double bound = simpleBound(problem_, request_.stages);
    const double leastInOrder = plan->lowerBoundNs;
    if (std::optional<PartitionResult> any = inAnyOrder(problem_)) {
      bound = std::max(bound, any->lowerBound);
      if (any->value < kWorthMoving * leastInOrder)
        takeIfBetter(orderOf(*any), *plan);
    }
    setBound(*plan, bound);
    return plan;
  }

  /// Cuts in program order; the lower bound is that of this order.
  llvm::Expected<CutPlan> inOrder() {
    // The incumbent: even stages, little traffic, no memory.
    llvm::Expected<std::vector<size_t>> even =
        partitionByCost(model_, top_, legal_, request_.stages);
    if (!even)
      return even.takeError();
    std::vector<size_t> chosen = *even;
    PartitionOptions options;
    if (request_.memoryLimit)
      options.firstBegins = memory_.firstBegins(limit());
    llvm::Expected<PartitionResult> exact = partitionInOrder(problem_, options);
    if (!exact)
      return exact.takeError();
    const std::vector<size_t> best = filled(boundariesOf(*exact));
    if (!fits(chosen) || bottleneck(chosen) > kAsGood * bottleneck(best))
      chosen = best;
    CutPlan plan;
    plan.boundaries = chosen;
    plan.bottleneckNs = bottleneck(chosen);
    plan.lowerBoundNs = std::min(plan.bottleneckNs, bottleneck(best));
    describeStages(plan);
    return plan;
  }

  /// One stage on each of devices that differ: the best of all orders, and of all ways to take the
  /// devices one after the other. Nothing: no such cut was found. The search knows of weights only:
  /// a device where a stage needs more than fits has that much less the next time.
  std::optional<CutPlan> onUnlikeDevices() const {
    std::vector<CutDevice> devices = request_.devices;
    std::optional<double> bound; // of the first time
    for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
      std::vector<size_t> numbers; // of devices, kind by kind
      const std::optional<PartitionResult> any = inAnyOrder(withKinds(devices, numbers));
      if (!any || any->stages.size() != request_.stages)
        return std::nullopt;
      bound = bound.value_or(any->lowerBound);
      CutPlan plan = planOf(*any, numbers);
      setBound(plan, *bound);
      const bool moves = !std::is_sorted(plan.order.begin(), plan.order.end());
      if (moves && !mayMove())
        return std::nullopt;
      const Model moved = moves ? movedModel(plan.order) : withOwnGraph(model_);
      if (!moves)
        plan.order.clear();
      const CutPlanner other(moved, request_);
      if (!other.isLegal(plan.boundaries))
        return std::nullopt;
      other.describeStages(plan);
      bool fits = true;
      for (size_t s = 0; s < plan.stageBytes.size(); ++s) {
        const size_t device = plan.deviceOf[s];
        const int64_t limit = request_.devices[device].memoryLimit;
        if (limit == 0 || plan.stageBytes[s] <= limit)
          continue;
        fits = false;
        devices[device].memoryLimit -= plan.stageBytes[s] - limit;
        if (devices[device].memoryLimit <= 0)
          return std::nullopt;
      }
      if (fits)
        return plan;
    }
    return std::nullopt;
  }

  /// Of every cut, on the fastest device, when nothing need be sent.
  double boundOfFastest() const {
    return request_.fastest * simpleBound(problem_, request_.stages, /*transfers=*/false);
  }

private:
  size_t size() const { return graph_.operators.size(); }

  static constexpr int kMostAttempts = 8;

  PartitionProblem withKinds(const std::vector<CutDevice> &devices,
                             std::vector<size_t> &numbers) const {
    PartitionProblem problem = problem_;
    problem.kinds.clear();
    problem.time.clear();
    for (size_t d = 0; d < devices.size(); ++d) {
      if (std::find(devices.begin(), devices.begin() + static_cast<ptrdiff_t>(d), devices[d]) !=
          devices.begin() + static_cast<ptrdiff_t>(d))
        continue; // of a kind that is there
      DeviceKind &kind = problem.kinds.emplace_back();
      kind.count = 0;
      if (devices[d].memoryLimit)
        kind.memory = double(devices[d].memoryLimit);
      for (size_t other = d; other < devices.size(); ++other)
        if (devices[other] == devices[d]) {
          ++kind.count;
          numbers.push_back(other);
        }
      problem.time.push_back(problem_.time[0]);
      for (double &time : problem.time.back())
        time *= devices[d].slowness;
    }
    return problem;
  }

  CutPlan planOf(const PartitionResult &any, const std::vector<size_t> &numbers) const {
    CutPlan plan;
    plan.order = orderOf(any);
    for (size_t i = 1; i < size(); ++i)
      if (any.device[plan.order[i]] != any.device[plan.order[i - 1]])
        plan.boundaries.push_back(i);
    for (uint32_t device : any.stages)
      plan.deviceOf.push_back(numbers[device]);
    plan.bottleneckNs = any.value;
    return plan;
  }

  bool isLegal(const std::vector<size_t> &boundaries) const {
    return std::includes(legal_.begin(), legal_.end(), boundaries.begin(), boundaries.end());
  }

  void makeProblem() {
    DeviceKind kind;
    kind.name = "stage";
    kind.count = request_.stages;
    problem_.time.emplace_back();
    for (size_t i = 0; i < size(); ++i) {
      const NodeCost &cost = model_.nodeCosts[i];
      problem_.time[0].push_back(double(cost.flops) / double(kFlopsPerNs));
      // Numbers and lists travel with what else travels.
      problem_.outCost.push_back(
          cost.outputBytes ? double(request_.link.nanoseconds(cost.outputBytes)) : 0);
    }
    problem_.edges = graph_.reads;
    problem_.order = OperatorOrder(top_, legality_).mustFollow();
    problem_.memory.assign(size(), 0);
    for (const WeightStorage &weight : weights_) // at least the first reader pays
      problem_.memory[*weight.readers.begin()] += double(weight.bytes);
    // What no cut may separate is one class.
    size_t next = 0;
    int64_t color = 0;
    problem_.color.push_back(0);
    for (size_t i = 1; i < size(); ++i) {
      if (next < legal_.size() && legal_[next] == i) {
        ++next;
        ++color;
      }
      problem_.color.push_back(color);
    }
    if (request_.memoryLimit) // and the weights are not all that needs room: see StageMemory
      kind.memory = double(request_.memoryLimit);
    problem_.kinds = {kind};
  }

  std::vector<uint32_t> stagesOf(const std::vector<size_t> &boundaries) const {
    std::vector<uint32_t> stages(size(), 0);
    for (size_t boundary : boundaries)
      for (size_t i = boundary; i < size(); ++i)
        ++stages[i];
    return stages;
  }

  double bottleneck(const std::vector<size_t> &boundaries) const {
    const std::vector<double> loads = deviceLoads(problem_, stagesOf(boundaries), LoadRule::Sum);
    return *std::max_element(loads.begin(), loads.end());
  }

  int64_t limit() const {
    return request_.memoryLimit ? request_.memoryLimit : std::numeric_limits<int64_t>::max();
  }

  std::vector<int64_t> outputBytes() const {
    std::vector<int64_t> bytes;
    for (size_t i = 0; i < size(); ++i)
      bytes.push_back(model_.nodeCosts[i].outputBytes);
    return bytes;
  }

  std::vector<int64_t> needs(const std::vector<size_t> &boundaries) const {
    std::vector<int64_t> bytes = memory_.weightsOf(boundaries);
    const std::vector<int64_t> results = memory_.resultsOf(boundaries);
    for (size_t s = 0; s < bytes.size(); ++s)
      bytes[s] += results[s];
    return bytes;
  }

  bool fits(const std::vector<size_t> &boundaries) const {
    const std::vector<int64_t> bytes = needs(boundaries);
    return *std::max_element(bytes.begin(), bytes.end()) <= limit();
  }

  /// With which there is a cut in this order; where nothing is limited none is asked for.
  int64_t leastMemory() const {
    return request_.memoryLimit ? memory_.least(legal_, request_.stages) : 0;
  }

  /// As far as the effort goes; nothing where that is too far.
  std::optional<PartitionResult> inAnyOrder(const PartitionProblem &problem) const {
    if (legal_.size() > kMostPlacesForSearch)
      return std::nullopt;
    PartitionOptions options;
    options.seconds = request_.effort;
    options.counted = true; // the cut must not depend on what else the machine does
    options.bytes = kMostBytesForSearch;
    options.orders = 3;
    llvm::Expected<PartitionResult> any = partitionContiguous(problem, options);
    if (any)
      return std::move(*any);
    llvm::consumeError(any.takeError()); // no more than what order needs was asked for
    return std::nullopt;
  }

  /// Where the program's order needs more memory than there is: that of the shortest stages whose
  /// weights fit, or of those with the least weights.
  llvm::Expected<CutPlan> inAnyOrderThatFits() const {
    PartitionProblem bytes = problem_;
    bytes.time = {problem_.memory};
    bytes.outCost.assign(size(), 0);
    bytes.kinds[0].memory = kUnlimited;
    int64_t least = leastMemory();
    for (const PartitionProblem *problem : {&problem_, &std::as_const(bytes)}) {
      std::optional<PartitionResult> any = inAnyOrder(*problem);
      if (!any || !mayMove())
        continue;
      std::vector<size_t> order = orderOf(*any);
      const Model moved = movedModel(order);
      CutPlanner other(moved, request_);
      if (other.legal_.size() + 1 < request_.stages)
        continue;
      least = std::min(least, other.leastMemory());
      if (other.leastMemory() > limit())
        continue;
      llvm::Expected<CutPlan> plan = other.inOrder();
      if (!plan)
        return plan;
      plan->order = std::move(order);
      const std::optional<PartitionResult> bound = inAnyOrder(problem_);
      setBound(*plan,
               std::max(simpleBound(problem_, request_.stages), bound ? bound->lowerBound : 0));
      return plan;
    }
    return makeError(
        ExitCode::NoPlan,
        fmt::format("no cut into {} fits: expected at least {} per device, got {}",
                    counted(request_.stages, "stage"), exactBytes(least),
                    exactBytes(request_.memoryLimit)),
        request_.unlike ? "that is for the device with the least memory: more stages need less each"
                        : "more stages need less memory each");
  }

  /// What no cut can do without is at most what this one does.
  static void setBound(CutPlan &plan, double bound) {
    PIPEC_ASSERT(bound <= plan.bottleneckNs * (1 + kRounding), "a cut is better than any can be");
    plan.lowerBoundNs = std::min(plan.bottleneckNs, bound);
  }

  static std::vector<size_t> boundariesOf(const PartitionResult &result) {
    std::vector<size_t> boundaries;
    for (size_t i = 1; i < result.device.size(); ++i)
      if (result.device[i] != result.device[i - 1])
        boundaries.push_back(i);
    return boundaries;
  }

  /// The operators stage by stage, those of a stage as in the program.
  std::vector<size_t> orderOf(const PartitionResult &result) const {
    std::vector<size_t> stageOf(request_.stages, 0), order(size());
    for (size_t s = 0; s < result.stages.size(); ++s)
      stageOf[result.stages[s]] = s;
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return stageOf[result.device[a]] < stageOf[result.device[b]];
    });
    return order;
  }

  /// Training keeps the program's order: where a value is read three times or more, the order of
  /// its readers decides the bits of the sum of their gradients.
  bool mayMove() const { return model_.mode == Mode::Infer; }

  Model movedModel(const std::vector<size_t> &order) const {
    Model moved = withOwnGraph(model_);
    removeBoundaries(moved);
    reorderOperators(moved, order);
    return moved;
  }

  /// The best cuts of another order.
  void takeIfBetter(std::vector<size_t> order, CutPlan &plan) const {
    if (!mayMove())
      return;
    const Model moved = movedModel(order);
    llvm::Expected<CutPlan> other = CutPlanner(moved, request_).inOrder();
    if (!other) {
      llvm::consumeError(other.takeError());
      return;
    }
    if (other->bottleneckNs >= kWorthMoving * plan.bottleneckNs)
      return;
    plan = std::move(*other);
    plan.order = std::move(order);
  }

  /// As many stages as were asked for: the longest that can be is halved until there are.
  std::vector<size_t> filled(std::vector<size_t> boundaries) const {
    std::vector<double> before(size() + 1, 0); // time of the operators before each place
    for (size_t i = 0; i < size(); ++i)
      before[i + 1] = before[i] + problem_.time[0][i];
    while (boundaries.size() + 1 < request_.stages) {
      double longest = -1;
      size_t place = 0;
      for (size_t s = 0; s <= boundaries.size(); ++s) {
        const size_t begin = s ? boundaries[s - 1] : 0,
                     end = s < boundaries.size() ? boundaries[s] : size();
        const double length = before[end] - before[begin];
        if (length <= longest)
          continue;
        const double middle = (before[begin] + before[end]) / 2;
        auto distance = [&](size_t at) { return std::abs(before[at] - middle); };
        const auto first = std::upper_bound(legal_.begin(), legal_.end(), begin),
                   last = std::lower_bound(legal_.begin(), legal_.end(), end);
        if (first == last)
          continue;
        place = *std::min_element(first, last,
                                  [&](size_t a, size_t b) { return distance(a) < distance(b); });
        longest = length;
      }
      boundaries.insert(std::upper_bound(boundaries.begin(), boundaries.end(), place), place);
    }
    return boundaries;
  }

  /// Times, bytes and channels of the stages.
  void describeStages(CutPlan &plan) const {
    const std::vector<uint32_t> stages = stagesOf(plan.boundaries);
    const size_t count = plan.boundaries.size() + 1;
    std::vector<double> time(count, 0);
    for (size_t i = 0; i < size(); ++i)
      time[stages[i]] += problem_.time[0][i];
    std::vector<size_t> ranks;
    for (size_t s = 0; s < count; ++s) {
      ranks.push_back(s);
      plan.stageNs.push_back(std::llround(time[s]));
    }
    plan.stageBytes = needs(plan.boundaries);
    plan.sketch = sketchPlan(ranks, Mode::Infer);
    std::map<uint32_t, std::set<size_t>> readers; // per operator: later stages
    for (auto [maker, reader] : graph_.reads)
      if (stages[maker] != stages[reader])
        readers[maker].insert(stages[reader]);
    for (const auto &[maker, consumers] : readers)
      addChannel(plan.sketch, stages[maker], {consumers.begin(), consumers.end()},
                 model_.nodeCosts[maker].outputBytes);
  }

  const Model &model_;
  const CutRequest &request_;
  TopLevel top_;
  CutLegality legality_;
  std::vector<size_t> legal_;
  OperatorGraph graph_;
  std::vector<WeightStorage> weights_;
  StageMemory memory_;
  PartitionProblem problem_;
};

} // namespace

llvm::Expected<CutPlan> planCuts(const Model &model, const CutRequest &request) {
  CutPlanner planner(model, request);
  if (!request.devices.empty())
    if (std::optional<CutPlan> plan = planner.onUnlikeDevices())
      return std::move(*plan);
  llvm::Expected<CutPlan> plan = planner.run();
  if (plan && request.unlike)
    plan->lowerBoundNs = std::min(plan->lowerBoundNs, planner.boundOfFastest());
  return plan;
}

} // namespace pipec
