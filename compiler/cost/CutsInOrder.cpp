#include "compiler/cost/CutsInOrder.h"

#include "compiler/cost/MeasureCosts.h"
#include "compiler/planner/SketchPlan.h"
#include "ir/support/Try.h"
#include "passes/analysis/OperatorOrder.h"
#include "passes/support/CutsByCost.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

namespace pipec {

namespace {

constexpr double kAsGood = 1.02;

std::vector<size_t> boundariesOf(const PartitionResult &result) {
  std::vector<size_t> boundaries;
  for (size_t i = 1; i < result.device.size(); ++i)
    if (result.device[i] != result.device[i - 1])
      boundaries.push_back(i);
  return boundaries;
}

std::vector<int64_t> outputBytes(const std::vector<NodeCost> &costs) {
  std::vector<int64_t> bytes;
  for (const NodeCost &cost : costs)
    bytes.push_back(cost.outputBytes);
  return bytes;
}

} // namespace

CutsInOrder::CutsInOrder(const Model &model, const std::vector<NodeCost> &costs,
                         const CutRequest &request)
    : costs_(costs), request_(request), top_(topLevelOf(model)), legality_(model, top_),
      legal_(legality_.all()), graph_(operatorGraph(model)),
      weights_(weightStorages(model, graph_)), memory_(graph_, weights_, outputBytes(costs)) {
  makeProblem();
}

llvm::Expected<CutPlan> CutsInOrder::best() const {
  // The incumbent: even stages, little traffic, no memory.
  std::vector<size_t> even = TRY(cutsByCost(top_, costs_, legal_, request_.stages));
  std::vector<size_t> chosen = even;
  PartitionOptions options;
  if (request_.memoryLimit)
    options.firstBegins = memory_.firstBegins(limit());
  PartitionResult exact = TRY(partitionInOrder(problem_, options));
  const std::vector<size_t> shortest = filled(boundariesOf(exact));
  if (!fits(chosen) || bottleneck(chosen) > kAsGood * bottleneck(shortest))
    chosen = shortest;
  CutPlan plan;
  plan.boundaries = chosen;
  plan.bottleneckNs = bottleneck(chosen);
  plan.lowerBoundNs = std::min(plan.bottleneckNs, bottleneck(shortest));
  describeStages(plan);
  return plan;
}

bool CutsInOrder::isLegal(const std::vector<size_t> &boundaries) const {
  return std::includes(legal_.begin(), legal_.end(), boundaries.begin(), boundaries.end());
}

void CutsInOrder::makeProblem() {
  DeviceKind kind;
  kind.count = request_.stages;
  problem_.time.emplace_back();
  for (size_t i = 0; i < size(); ++i) {
    const NodeCost &cost = costs_[i];
    problem_.time[0].push_back(double(cost.flops) / double(kFlopsPerNs));
    // Numbers and lists travel together with other values, at no extra cost.
    problem_.outCost.push_back(
        cost.outputBytes ? double(request_.link.nanoseconds(cost.outputBytes)) : 0);
  }
  problem_.edges = graph_.reads;
  problem_.order = OperatorOrder(top_, legality_).mustFollow();
  problem_.order.insert(problem_.order.end(), graph_.reads.begin(), graph_.reads.end());
  problem_.memory.assign(size(), 0);
  for (const WeightStorage &weight : weights_) // at least the first reader pays
    problem_.memory[*weight.readers.begin()] += double(weight.bytes);
  // Operators that no cut may separate form one class.
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
  if (request_.memoryLimit) // weights are not all that needs memory: see StageMemory
    kind.memory = double(request_.memoryLimit);
  problem_.kinds = {kind};
}

std::vector<uint32_t> CutsInOrder::stagesOf(const std::vector<size_t> &boundaries) const {
  std::vector<uint32_t> stages(size(), 0);
  for (size_t boundary : boundaries)
    for (size_t i = boundary; i < size(); ++i)
      ++stages[i];
  return stages;
}

double CutsInOrder::bottleneck(const std::vector<size_t> &boundaries) const {
  const std::vector<double> loads = deviceLoads(problem_, stagesOf(boundaries));
  return *std::max_element(loads.begin(), loads.end());
}

int64_t CutsInOrder::limit() const {
  return request_.memoryLimit ? request_.memoryLimit : std::numeric_limits<int64_t>::max();
}

std::vector<int64_t> CutsInOrder::needs(const std::vector<size_t> &boundaries) const {
  std::vector<int64_t> bytes = memory_.weightsOf(boundaries);
  const std::vector<int64_t> results = memory_.resultsOf(boundaries);
  for (size_t s = 0; s < bytes.size(); ++s)
    bytes[s] += results[s];
  return bytes;
}

bool CutsInOrder::fits(const std::vector<size_t> &boundaries) const {
  const std::vector<int64_t> bytes = needs(boundaries);
  return *std::max_element(bytes.begin(), bytes.end()) <= limit();
}

int64_t CutsInOrder::leastMemory(size_t stages) const {
  return request_.memoryLimit ? memory_.least(legal_, stages) : 0;
}

std::vector<size_t> CutsInOrder::filled(std::vector<size_t> boundaries) const {
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

void CutsInOrder::describeStages(CutPlan &plan) const {
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
               costs_[maker].outputBytes);
}

} // namespace pipec
