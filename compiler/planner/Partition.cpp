#include "compiler/planner/Partition.h"

#include "compiler/planner/Contraction.h"
#include "compiler/planner/Orders.h"
#include "compiler/planner/Slicing.h"
#include "compiler/planner/ThresholdSearch.h"
#include "ir/support/Check.h"
#include "ir/support/Try.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace pipec {

namespace {

llvm::Error checkProblem(const PartitionProblem &problem) {
  size_t n = problem.nodes();
  auto sized = [&](const char *what, size_t size) -> llvm::Error {
    if (size == n)
      return llvm::Error::success();
    return failf(ExitCode::Usage, "{}: expected one for each of {} nodes, got {}", what, n, size);
  };
  if (problem.kinds.empty() || problem.kinds.size() > 16)
    return failf(ExitCode::Usage, "device kinds: expected 1 to 16, got {}", problem.kinds.size());
  if (problem.time.size() != problem.kinds.size())
    return failf(ExitCode::Usage, "times: expected those of {} device kinds, got {}",
                 problem.kinds.size(), problem.time.size());
  double states = 1;
  for (const DeviceKind &kind : problem.kinds)
    states *= static_cast<double>(kind.count + 1);
  if (states < 2 || states > 1e6)
    return failf(
        ExitCode::Usage,
        "devices: expected at least one and at most 1,000,000 ways to use some of them, got "
        "{:.0f}",
        states - 1);
  for (const std::vector<double> &times : problem.time) {
    TRY(sized("times", times.size()));
    for (double time : times)
      if (!(time >= 0) || std::isinf(time))
        return failf(ExitCode::Usage, "times: expected 0 or more, got {}", time);
  }
  for (const std::vector<double> *numbers : {&problem.memory, &problem.outCost})
    for (double number : *numbers)
      if (!(number >= 0) || std::isinf(number))
        return failf(ExitCode::Usage, "memory and transfer costs: expected 0 or more, got {}",
                     number);
  TRY(sized("transfer costs", problem.outCost.size()));
  if (!problem.color.empty())
    TRY(sized("colours", problem.color.size()));
  for (const auto *edges : {&problem.edges, &problem.order})
    for (auto [source, target] : *edges)
      if (source >= n || target >= n)
        return failf(ExitCode::Usage, "edges: expected nodes below {}, got {} -> {}", n, source,
                     target);
  return llvm::Error::success();
}

/// The stages of a partition, to be placed: each takes the next free device of its kind.
struct Stage {
  std::vector<uint32_t> items;
  uint32_t kind;
};

void assign(const PartitionProblem &problem, const Items &items, const std::vector<Stage> &stages,
            PartitionResult &result) {
  std::vector<uint32_t> next{0};
  for (const DeviceKind &kind : problem.kinds)
    next.push_back(next.back() + static_cast<uint32_t>(kind.count));
  std::vector<uint32_t> device(items.size());
  result.stages.clear();
  for (const Stage &stage : stages) {
    result.stages.push_back(next[stage.kind]++);
    for (uint32_t item : stage.items)
      device[item] = result.stages.back();
  }
  result.device.resize(problem.nodes());
  for (uint32_t node = 0; node < problem.nodes(); ++node)
    result.device[node] = device[items.itemOf[node]];
}

void score(const PartitionProblem &problem, PartitionResult &result) {
  const std::vector<double> loads = deviceLoads(problem, result.device);
  result.bottleneck = *std::max_element(loads.begin(), loads.end());
}

/// One run of the exact search and of the heuristics before it.
class ContiguousSearch {
public:
  ContiguousSearch(const PartitionProblem &problem, const PartitionOptions &options)
      : problem_(problem), options_(options),
        deadline_(options.seconds, options.byClock ? TimeCount::Time : TimeCount::Questions),
        groups_(colorGroups(problem)) {}

  llvm::Expected<PartitionResult> run() {
    contractFreely();
    balance_ = balanceBound(*items_, problem_.kinds);
    result_.lowerBound = balance_;
    result_.bottleneck = kUnlimited;
    cutOrders();
    const bool complete = searchAll();
    if (result_.device.empty())
      return infeasible(complete);
    if (complete)
      result_.lowerBound = result_.bottleneck;
    else
      result_.lowerBound =
          std::max(balance_, contractionBound(problem_, groups_, balance_,
                                              std::max(balance_, result_.bottleneck)));
    result_.proved = result_.lowerBound >= result_.bottleneck * (1 - 1e-9);
    result_.seconds = deadline_.elapsed();
    return std::move(result_);
  }

private:
  void contractFreely() {
    do
      items_ = makeItems(problem_, groups_);
    while (joinFreeLeaves(problem_, *items_, groups_) || joinFollowers(problem_, *items_, groups_));
  }

  void take(const Ideals &ideals, const ChainResult &chain) {
    result_.pairs += chain.pairs;
    if (chain.stages.empty())
      return;
    std::vector<Stage> stages;
    uint32_t before = 0;
    for (ChainStage step : chain.stages) {
      stages.push_back({{}, step.kind});
      for (uint32_t item = 0; item < items_->size(); ++item)
        if (ideals.contains(step.ideal, item) && !ideals.contains(before, item))
          stages.back().items.push_back(item);
      before = step.ideal;
    }
    take(stages);
  }

  void take(const std::vector<Stage> &stages) {
    PartitionResult found = result_;
    assign(problem_, *items_, stages, found);
    score(problem_, found);
    if (found.bottleneck < result_.bottleneck)
      result_ = std::move(found);
  }

  /// Finds a first partition: the best cut of each of several orders. For short lists it also finds
  /// the best chain of the prefixes of all these orders.
  void cutOrders() {
    constexpr size_t kShort = 3000;
    bool isShort = items_->size() <= kShort;
    Ideals ideals(*items_);
    for (OrderRule rule : {OrderRule::Number, OrderRule::DepthFirst, OrderRule::LastInFirst}) {
      std::vector<uint32_t> order = orderItems(*items_, rule);
      cutOrder(order);
      if (isShort)
        ideals.addChain(order);
    }
    if (!isShort)
      return;
    take(ideals, bestChain(ideals, problem_.kinds, result_.bottleneck,
                           deadline_.until(options_.seconds / 4)));
  }

  void cutOrder(const std::vector<uint32_t> &order) {
    SliceLimits limits;
    for (size_t kind = 0; kind < problem_.kinds.size(); ++kind)
      if (problem_.kinds[kind].count > problem_.kinds[limits.kind].count)
        limits.kind = kind;
    limits.stages = problem_.kinds[limits.kind].count;
    limits.tolerance = 1e-6;
    Slices slices = sliceOrder(problem_, *items_, order, limits);
    std::vector<Stage> stages;
    uint32_t begin = 0;
    for (uint32_t end : slices.ends) {
      stages.push_back(
          {{order.begin() + begin, order.begin() + end}, static_cast<uint32_t>(limits.kind)});
      begin = end;
    }
    if (!stages.empty())
      take(stages);
  }

  /// Searches every partition that could beat the best one so far. Returns false if it gave up.
  bool searchAll() {
    Groups own = groups_;
    if (result_.bottleneck < kUnlimited)
      while (joinInseparable(problem_, *items_, result_.bottleneck, groups_))
        contractFreely();
    result_.items = items_->size();
    bool complete = false;
    Ideals ideals(*items_);
    if (ideals.addAll(options_.bytes, deadline_.until(options_.seconds / 2))) {
      result_.ideals = ideals.size();
      ChainResult chain = bestChain(ideals, problem_.kinds, result_.bottleneck,
                                    deadline_.until(options_.seconds * 0.8));
      take(ideals, chain);
      complete = chain.complete;
    }
    groups_ = own;
    return complete;
  }

  /// The error if no partition fits. A search with bytes in place of times finds the memory that
  /// would suffice.
  llvm::Error infeasible(bool certain) {
    PartitionProblem bytes = problem_;
    double limit = 0;
    for (size_t kind = 0; kind < bytes.kinds.size(); ++kind) {
      bool limited = problem_.kinds[kind].memory < kUnlimited;
      if (limited)
        limit = std::max(limit, problem_.kinds[kind].memory);
      bytes.kinds[kind].memory = kUnlimited;
      bytes.kinds[kind].paysTransfers = true;
      for (uint32_t node = 0; node < bytes.nodes(); ++node)
        bytes.time[kind][node] = limited ? bytes.memory[node] : 0;
    }
    bytes.outCost.assign(bytes.nodes(), 0);
    PIPEC_ASSERT(limit > 0, "nothing is limited and nothing fits");
    PartitionResult least = TRY(ContiguousSearch(bytes, options_).run());
    return makeError(
        ExitCode::NoPlan,
        fmt::format("memory: expected {}{:.0f} bytes on a device, got {:.0f}",
                    least.proved ? "at least " : "", std::ceil(least.bottleneck), limit),
        certain ? "" : "the search stopped at its time limit; more time may find a plan");
  }

  const PartitionProblem &problem_;
  PartitionOptions options_;
  Deadline deadline_;
  Groups groups_;
  std::optional<Items> items_;
  double balance_ = 0;
  PartitionResult result_;
};

/// Converts `firstNodes`, a property of nodes, to items in this order: an item has the property of
/// its last node.
std::vector<uint32_t> firstItems(const Items &items, const std::vector<uint32_t> &order,
                                 const std::vector<uint32_t> &firstNodes) {
  std::vector<uint32_t> lastNode(items.size(), 0), firstNode(items.size(), ~0u), result;
  for (uint32_t node = 0; node < items.itemOf.size(); ++node) {
    lastNode[items.itemOf[node]] = node;
    firstNode[items.itemOf[node]] = std::min(firstNode[items.itemOf[node]], node);
  }
  uint32_t begin = 0;
  for (uint32_t item : order) {
    while (begin < order.size() && firstNode[order[begin]] < firstNodes[lastNode[item]])
      ++begin;
    result.push_back(begin);
  }
  return result;
}

} // namespace

llvm::Expected<PartitionResult> partitionContiguous(const PartitionProblem &problem,
                                                    const PartitionOptions &options) {
  TRY(checkProblem(problem));
  if (problem.nodes() == 0)
    return PartitionResult{};
  return ContiguousSearch(problem, options).run();
}

llvm::Expected<PartitionResult> partitionInOrder(const PartitionProblem &problem,
                                                 const PartitionOptions &options) {
  TRY(checkProblem(problem));
  Deadline clock(options.seconds);
  Groups groups = colorGroups(problem);
  const Items items = makeItems(problem, groups);
  std::vector<uint32_t> order = orderItems(items, OrderRule::Number);
  SliceLimits limits;
  limits.stages = problem.kinds[0].count;
  PIPEC_ASSERT(std::is_sorted(options.firstBegins.begin(), options.firstBegins.end()),
               "stages that end later begin no earlier");
  if (!options.firstBegins.empty())
    limits.firstBegins = firstItems(items, order, options.firstBegins);
  Slices slices = sliceOrder(problem, items, order, limits);
  if (slices.ends.empty())
    return failf(ExitCode::NoPlan,
                 "memory: expected more than {:.0f} bytes on a device for {} stages in this order",
                 problem.kinds[0].memory, limits.stages);
  PartitionResult result;
  std::vector<Stage> stages;
  uint32_t begin = 0;
  for (uint32_t end : slices.ends) {
    stages.push_back({{order.begin() + begin, order.begin() + end}, 0});
    begin = end;
  }
  assign(problem, items, stages, result);
  score(problem, result);
  PIPEC_ASSERT(slices.lowerBound <= result.bottleneck * (1 + 1e-6),
               "an order is cut better than it can be");
  result.lowerBound = std::min(slices.lowerBound, result.bottleneck);
  result.items = items.size();
  result.seconds = clock.elapsed();
  return result;
}

std::vector<double> deviceLoads(const PartitionProblem &problem,
                                const std::vector<uint32_t> &device) {
  std::vector<uint32_t> kindOf;
  for (size_t kind = 0; kind < problem.kinds.size(); ++kind)
    kindOf.insert(kindOf.end(), problem.kinds[kind].count, static_cast<uint32_t>(kind));
  PIPEC_ASSERT(device.size() == problem.nodes(), "every node has a device");
  std::vector<double> compute(kindOf.size(), 0), moved(kindOf.size(), 0);
  for (uint32_t node = 0; node < problem.nodes(); ++node)
    compute[device[node]] += problem.time[kindOf[device[node]]][node];
  std::vector<std::pair<uint32_t, uint32_t>> takers;
  for (auto [source, target] : problem.edges)
    if (device[source] != device[target])
      takers.emplace_back(source, device[target]);
  RowTable table = RowTable::fromPairs(problem.nodes(), takers);
  for (uint32_t node = 0; node < problem.nodes(); ++node) {
    if (table[node].size() == 0)
      continue;
    moved[device[node]] += problem.outCost[node];
    for (uint32_t taker : table[node])
      moved[taker] += problem.outCost[node];
  }
  for (size_t d = 0; d < kindOf.size(); ++d)
    compute[d] += problem.kinds[kindOf[d]].paysTransfers ? moved[d] : 0;
  return compute;
}

} // namespace pipec
