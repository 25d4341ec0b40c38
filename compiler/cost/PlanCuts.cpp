#include "compiler/cost/PlanCuts.h"

#include "compiler/cost/CutBounds.h"
#include "compiler/cost/CutsInOrder.h"
#include "ir/OwnGraph.h"
#include "ir/support/Check.h"
#include "ir/support/Quantities.h"
#include "ir/support/Try.h"
#include "ir/support/Words.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <numeric>
#include <optional>

namespace pipec {

namespace {

constexpr double kWorthMoving = 0.99;         // required gain of moving operators
constexpr double kRounding = 1e-6;            // of sums of costs, relative
constexpr size_t kMostPlacesForSearch = 5000; // with more: program order and simple bounds
constexpr size_t kMostBytesForSearch = size_t(256) << 20;
constexpr double kSecondsOfSearch = 1; // of an idle machine

class CutPlanner {
public:
  CutPlanner(const Model &model, const std::vector<NodeCost> &costs, const CutRequest &request)
      : model_(model), costs_(costs), request_(request), program_(model, costs, request) {}

  /// The best cut of all equivalent orders, or of program order if that is as good.
  llvm::Expected<CutPlan> run() {
    TRY(program_.enoughPlaces());
    if (program_.leastMemory() > program_.limit())
      return inAnyOrderThatFits();
    CutPlan plan = TRY(program_.best());
    double bound = simpleBound(problem(), request_.stages);
    const double leastInOrder = plan.lowerBoundNs;
    if (std::optional<PartitionResult> any = inAnyOrder(problem())) {
      bound = std::max(bound, any->lowerBound);
      if (any->bottleneck < kWorthMoving * leastInOrder)
        takeIfBetter(orderOf(*any), plan);
    }
    setBound(plan, bound);
    return plan;
  }

  /// One stage on each of different devices: the best cut of all orders and of all sequences of the
  /// devices. Nothing if no such cut was found. The search knows of weights only: if a stage needs
  /// more memory than its device has, the next attempt gives that device less by the excess.
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
      const std::vector<NodeCost> costs = moves ? reordered(costs_, plan.order) : costs_;
      if (!moves)
        plan.order.clear();
      const CutsInOrder other(moved, costs, request_);
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

  /// The bound of every cut: all on the fastest device, with nothing to send.
  double boundOfFastest() const {
    return request_.fastest * simpleBound(problem(), request_.stages, /*transfers=*/false);
  }

private:
  size_t size() const { return program_.size(); }
  const PartitionProblem &problem() const { return program_.problem(); }

  static constexpr int kMostAttempts = 8;

  PartitionProblem withKinds(const std::vector<CutDevice> &devices,
                             std::vector<size_t> &numbers) const {
    PartitionProblem asked = problem();
    asked.kinds.clear();
    asked.time.clear();
    for (size_t d = 0; d < devices.size(); ++d) {
      if (std::find(devices.begin(), devices.begin() + static_cast<ptrdiff_t>(d), devices[d]) !=
          devices.begin() + static_cast<ptrdiff_t>(d))
        continue; // of a kind that is there
      DeviceKind &kind = asked.kinds.emplace_back();
      kind.count = 0;
      if (devices[d].memoryLimit)
        kind.memory = double(devices[d].memoryLimit);
      for (size_t other = d; other < devices.size(); ++other)
        if (devices[other] == devices[d]) {
          ++kind.count;
          numbers.push_back(other);
        }
      asked.time.push_back(problem().time[0]);
      for (double &time : asked.time.back())
        time *= devices[d].slowness;
    }
    return asked;
  }

  CutPlan planOf(const PartitionResult &any, const std::vector<size_t> &numbers) const {
    CutPlan plan;
    plan.order = orderOf(any);
    for (size_t i = 1; i < size(); ++i)
      if (any.device[plan.order[i]] != any.device[plan.order[i - 1]])
        plan.boundaries.push_back(i);
    for (uint32_t device : any.stages)
      plan.deviceOf.push_back(numbers[device]);
    plan.bottleneckNs = any.bottleneck;
    return plan;
  }

  /// The best cut over all orders that the search finds; nothing if its limits are too small.
  std::optional<PartitionResult> inAnyOrder(const PartitionProblem &problem) const {
    if (program_.places() > kMostPlacesForSearch)
      return std::nullopt;
    PartitionOptions options;
    options.seconds = kSecondsOfSearch;
    options.bytes = kMostBytesForSearch;
    llvm::Expected<PartitionResult> any = partitionContiguous(problem, options);
    if (any)
      return std::move(*any);
    llvm::consumeError(any.takeError()); // the caller only needs an order
    return std::nullopt;
  }

  /// If program order needs more memory than there is: the order of the shortest stages whose
  /// weights fit, or of those with the least weights.
  llvm::Expected<CutPlan> inAnyOrderThatFits() const {
    PartitionProblem bytes = problem();
    bytes.time = {problem().memory};
    bytes.outCost.assign(size(), 0);
    bytes.kinds[0].memory = kUnlimited;
    int64_t least = program_.leastMemory();
    for (const PartitionProblem *asked : {&problem(), &std::as_const(bytes)}) {
      std::optional<PartitionResult> any = inAnyOrder(*asked);
      if (!any || !mayMove())
        continue;
      std::vector<size_t> order = orderOf(*any);
      const Model moved = movedModel(order);
      const std::vector<NodeCost> costs = reordered(costs_, order);
      const CutsInOrder other(moved, costs, request_);
      if (other.places() + 1 < request_.stages)
        continue;
      least = std::min(least, other.leastMemory());
      if (other.leastMemory() > program_.limit())
        continue;
      CutPlan plan = TRY(other.best());
      plan.order = std::move(order);
      const std::optional<PartitionResult> bound = inAnyOrder(problem());
      setBound(plan,
               std::max(simpleBound(problem(), request_.stages), bound ? bound->lowerBound : 0));
      return plan;
    }
    return makeError(ExitCode::NoPlan,
                     fmt::format("no cut into {} fits: expected at least {} per device, got {}",
                                 counted(request_.stages, "stage"), exactBytes(least),
                                 exactBytes(request_.memoryLimit)),
                     helpWithMemory());
  }

  /// More stages help only if a cut at every place fits.
  std::string helpWithMemory() const {
    const size_t most = program_.places() + 1;
    const int64_t leastOfMost = program_.leastMemory(most);
    return fmt::format(
        "{}{}", request_.unlike ? "this is the limit of the device with the least memory; " : "",
        leastOfMost <= program_.limit()
            ? "more stages need less memory per stage"
            : fmt::format("raise the memory limit; this model can be cut into at most {}, one of "
                          "which then still needs {}",
                          counted(most, "stage"), exactBytes(leastOfMost)));
  }

  /// Limits a bound to the value of this cut, which is an upper limit for it.
  static void setBound(CutPlan &plan, double bound) {
    PIPEC_ASSERT(bound <= plan.bottleneckNs * (1 + kRounding), "a cut is better than any can be");
    plan.lowerBoundNs = std::min(plan.bottleneckNs, bound);
  }

  /// The operators stage by stage; within a stage in program order.
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

  /// Training keeps program order: if a value is read three times or more, the order of its readers
  /// decides the bits of the sum of their gradients.
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
    const std::vector<NodeCost> costs = reordered(costs_, order);
    llvm::Expected<CutPlan> other = CutsInOrder(moved, costs, request_).best();
    if (!other) { // `plan` is one already
      llvm::consumeError(other.takeError());
      return;
    }
    if (other->bottleneckNs >= kWorthMoving * plan.bottleneckNs)
      return;
    plan = std::move(*other);
    plan.order = std::move(order);
  }

  const Model &model_;
  const std::vector<NodeCost> &costs_;
  const CutRequest &request_;
  const CutsInOrder program_;
};

} // namespace

llvm::Expected<CutPlan> planCuts(const Model &model, const std::vector<NodeCost> &costs,
                                 const CutRequest &request) {
  CutPlanner planner(model, costs, request);
  if (!request.devices.empty())
    if (std::optional<CutPlan> plan = planner.onUnlikeDevices())
      return std::move(*plan);
  llvm::Expected<CutPlan> plan = planner.run();
  if (plan && request.unlike)
    plan->lowerBoundNs = std::min(plan->lowerBoundNs, planner.boundOfFastest());
  return plan;
}

} // namespace pipec
