#include "compiler/planner/TrainingStages.h"

#include "compiler/planner/SketchPlan.h"
#include "ir/schedule/ClusterCosts.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace pipec {

namespace {

/// Up: no sum of parts is less than the whole.
int64_t rounded(double value) { return static_cast<int64_t>(std::ceil(value - 1e-6)); }

} // namespace

TrainingStages::TrainingStages(const TrainingProblem &problem) : problem_(problem) {
  const std::vector<CostRow> &rows = problem.table.rows;
  for (size_t r = 0; r < problem.ranks; ++r)
    slow_.push_back(slowness(problem.cluster, problem.cluster.deviceOfRank(r)));
  double fastestUpdate = std::numeric_limits<double>::infinity(); // of a byte, in a unit of work
  for (size_t r = 0; r < problem.ranks; ++r) {
    const double rate = double(problem.cluster.deviceOfRank(r).bytesPerSecond);
    fastestUpdate = std::min(fastestUpdate, 1e9 / (rate * slow_[r]));
  }
  for (std::vector<double> *sums : {&forward_, &work_, &kept_, &fixed_, &update_})
    sums->assign(rows.size() + 1, 0);
  hasGradient_.assign(rows.size(), false);
  readers_.resize(rows.size());
  firstPending_.assign(rows.size(), SIZE_MAX);
  for (const SharedWeight &weight : problem.table.shared)
    for (uint32_t reader : weight.readers)
      hasGradient_[reader] = hasGradient_[reader] || weight.trained;
  for (size_t i = 0; i < rows.size(); ++i) {
    const CostRow &row = rows[i];
    if (i > 0 && !row.withPrevious)
      places_.push_back(i);
    forward_[i + 1] = forward_[i] + double(row.forwardNs);
    work_[i + 1] = work_[i] + double(row.forwardNs + row.inputGradNs + row.weightGradNs);
    kept_[i + 1] = kept_[i] + double(row.keptBytes);
    fixed_[i + 1] = fixed_[i] + double(row.weightBytes) +
                    double(row.trainedBytes) * double(1 + problem.optimizer.states);
    update_[i + 1] =
        update_[i] + double(row.trainedBytes) * double(problem.optimizer.moved) * fastestUpdate;
    if (row.trainedBytes > 0)
      hasGradient_[i] = true;
    for (uint32_t maker : row.reads) {
      readers_[maker].push_back(static_cast<uint32_t>(i));
      if (row.pendingBytes > 0)
        firstPending_[maker] = std::min(firstPending_[maker], i);
      if (hasGradient_[maker])
        hasGradient_[i] = true;
    }
  }
  crossing_.assign(rows.size() + 1, 0);
  for (size_t i = 0; i < rows.size(); ++i)
    if (!readers_[i].empty()) {
      crossing_[i + 1] += double(rows[i].outputBytes);
      crossing_[readers_[i].back() + 1] -= double(rows[i].outputBytes);
    }
  for (size_t i = 1; i < crossing_.size(); ++i)
    crossing_[i] += crossing_[i - 1];
}

int64_t TrainingProblem::memoryOf(size_t rank) const {
  return memoryLimit ? memoryLimit : cluster.deviceOfRank(rank).memoryBytes;
}

int64_t TrainingProblem::sharing(size_t rank) const {
  const size_t devices = cluster.devices.size();
  return static_cast<int64_t>((ranks - rank % devices + devices - 1) / devices);
}

std::optional<int64_t> TrainingStages::limitOf(size_t rank) const {
  const int64_t whole = problem_.memoryOf(rank);
  if (whole == 0)
    return std::nullopt;
  return whole / problem_.sharing(rank);
}

/// Whether a stage that ends at `end` gets a gradient for what the operator makes.
bool TrainingStages::isMadeFor(size_t end, size_t op) const {
  return hasGradient_[op] && problem_.table.rows[op].outputBytes > 0 && !readers_[op].empty() &&
         readers_[op].back() >= end;
}

/// Whether a result of the stage leads to a value with a gradient that it received. A result that
/// nothing reads may be the loss.
bool TrainingStages::leadsToReceived(size_t begin, size_t end) const {
  if (begin == 0)
    return false;
  const std::vector<CostRow> &rows = problem_.table.rows;
  std::vector<bool> leads(end - begin, false);
  for (size_t i = begin; i < end; ++i) {
    for (uint32_t maker : rows[i].reads)
      if (hasGradient_[maker] && rows[maker].outputBytes > 0 &&
          (maker < begin || leads[maker - begin]))
        leads[i - begin] = true;
    if (leads[i - begin] && (readers_[i].empty() || isMadeFor(end, i)))
      return true;
  }
  return false;
}

/// I walks from the stage's results to the values with gradients that it received, and between its
/// results (SplitWalk). It leaves each gradient at which the rest of the walk begins, which is W's.
/// If it comes to no received value, W is the whole backward.
TrainingStages::BackwardParts TrainingStages::partsOf(size_t begin, size_t end) const {
  const std::vector<CostRow> &rows = problem_.table.rows;
  BackwardParts parts;
  const bool isSplit = leadsToReceived(begin, end);
  std::vector<bool> isOnWay(end - begin, false);
  std::set<uint32_t> again; // received values that the table counts for an earlier stage
  for (size_t i = begin; i < end; ++i) {
    const CostRow &row = rows[i];
    bool readsRest = false; // of the stage
    for (uint32_t maker : row.reads) {
      if (row.pendingBytes > 0 && firstPending_[maker] < begin && again.insert(maker).second)
        parts.pendingBytes += rows[maker].outputBytes;
      if (!hasGradient_[maker] || rows[maker].outputBytes == 0)
        continue;
      const bool leads =
          isSplit && (maker < begin || isOnWay[maker - begin] || isMadeFor(end, maker));
      isOnWay[i - begin] = isOnWay[i - begin] || leads;
      readsRest = readsRest || !leads;
    }
    const int64_t whole = row.keptBytes + row.outputBytes; // with the gradient of its result
    if (!isOnWay[i - begin]) {
      parts.weightGradNs += row.inputGradNs + row.weightGradNs;
      parts.pendingBytes += isMadeFor(end, i) ? whole : row.keptBytes;
      for (uint32_t maker : row.reads) // an earlier stage may be the first to keep it
        if (maker < begin && again.insert(maker).second)
          parts.pendingBytes += rows[maker].outputBytes;
      continue;
    }
    parts.inputGradNs += row.inputGradNs;
    parts.weightGradNs += row.weightGradNs;
    parts.pendingBytes += readsRest ? std::max(whole, row.pendingBytes) : row.pendingBytes;
  }
  return parts;
}

bool TrainingStages::sharesFreely() const {
  return llvm::any_of(problem_.table.shared, [&](const SharedWeight &weight) {
    return !problem_.tied.count(weight.name);
  });
}

int64_t TrainingStages::updateNs(size_t rank, int64_t trainedBytes) const {
  const double moved = double(trainedBytes) * double(problem_.optimizer.moved);
  return rounded(moved * 1e9 / double(problem_.cluster.deviceOfRank(rank).bytesPerSecond));
}

void TrainingStages::addChannels(const TrainingPoint &point, const std::vector<uint32_t> &stageOf,
                                 StagedWork &work) const {
  std::set<std::pair<size_t, size_t>> linked; // stages between which something travels
  // Numbers have no bytes and travel with the tensors of a channel. Between stages without tensors
  // they need a channel of their own.
  for (const bool ofBytes : {true, false})
    for (size_t maker = 0; maker < readers_.size(); ++maker) {
      const int64_t bytes = rounded(double(problem_.table.rows[maker].outputBytes) * point.share);
      const size_t from = stageOf[maker];
      if ((bytes > 0) != ofBytes)
        continue;
      std::set<size_t> consumers;
      for (uint32_t reader : readers_[maker])
        if (stageOf[reader] != from && (ofBytes || !linked.count({from, stageOf[reader]})))
          consumers.insert(stageOf[reader]);
      if (consumers.empty())
        continue;
      addChannel(work.plan, from, {consumers.begin(), consumers.end()}, bytes);
      work.plan.channels.back().tensor.requiresGrad = ofBytes && hasGradient_[maker];
      for (size_t stage : consumers) {
        linked.insert({from, stage});
        work.costs.stages[stage].heldByForward += bytes;
        work.costs.stages[stage].freedByInputGrad += bytes; // the operators' pending bytes count it
        work.costs.keptToRecompute[stage] += bytes;
      }
    }
}

/// The table's first reader has the weight already.
void TrainingStages::addShared(const TrainingPoint &point, const std::vector<uint32_t> &stageOf,
                               StagedWork &work, std::vector<int64_t> &trained) const {
  for (const SharedWeight &weight : problem_.table.shared) {
    std::set<size_t> stages;
    for (uint32_t reader : weight.readers)
      stages.insert(stageOf[reader]);
    if (stages.size() < 2)
      continue;
    const auto given = problem_.tied.find(weight.name);
    const Tie::Mode mode = given != problem_.tied.end() ? given->second : point.tied;
    addTie(work.plan, {stages.begin(), stages.end()}, weight.bytes, mode);
    const size_t owner = *stages.begin(), home = work.plan.stages[owner].rank;
    for (size_t stage : stages)
      work.plan.stages[stage].attributes.back().requiresGrad = weight.trained;
    std::set<size_t> sentTo;
    for (size_t stage : stages) {
      const size_t rank = work.plan.stages[stage].rank;
      if (stage == owner)
        continue;
      work.costs.gradientBytes[stage] += weight.trained ? weight.bytes : 0;
      if (mode == Tie::Mode::Replicate) {
        const int64_t states = weight.trained ? 1 + problem_.optimizer.states : 0;
        work.fixedBytes[rank] += weight.bytes * (1 + states);
        trained[stage] += weight.trained ? weight.bytes : 0;
      } else if (weight.trained && rank != home && sentTo.insert(rank).second) {
        work.fixedBytes[rank] += weight.bytes; // its gradient, during the backward
      }
    }
  }
}

/// Links between all ranks that may send each other something.
void TrainingStages::connect(StagedWork &work) const {
  Program ways;
  ways.ranks.resize(work.plan.ranks);
  std::set<std::pair<size_t, size_t>> pairs;
  for (const Channel &channel : work.plan.channels)
    for (const PortRef &to : channel.to) {
      const size_t from = work.plan.stages[channel.from.stage].rank,
                   rank = work.plan.stages[to.stage].rank;
      pairs.insert({from, rank});
      pairs.insert({rank, from});
      for (const PortRef &other : channel.to) // gradients go from consumer to consumer
        pairs.insert({rank, work.plan.stages[other.stage].rank});
    }
  for (auto [from, to] : pairs)
    ways.lanes.push_back({from, to});
  for (const Tie &tie : work.plan.ties) {
    std::set<size_t> ranks;
    for (size_t stage : tie.stages)
      ranks.insert(work.plan.stages[stage].rank);
    ways.groups.emplace_back(ranks.begin(), ranks.end());
  }
  placeOn(problem_.cluster, ways, work.costs);
}

StagedWork TrainingStages::workOf(const TrainingPoint &point) const {
  StagedWork work;
  work.placement = point.placement;
  work.chunks = point.chunks;
  work.plan = sketchPlan(rankOfStages(point.placement, problem_.ranks, point.chunks), Mode::Train);
  work.shape.microBatches = point.microBatches;
  work.shape.train = true;
  work.shape.optimizer = true;
  const size_t stages = point.boundaries.size() + 1;
  std::vector<uint32_t> stageOf(operators(), 0);
  std::vector<int64_t> trained(stages, 0), largest(problem_.ranks, 0);
  work.fixedBytes.assign(problem_.ranks, 0);
  for (size_t s = 0; s < stages; ++s) {
    const size_t begin = s ? point.boundaries[s - 1] : 0,
                 end = s + 1 < stages ? point.boundaries[s] : operators();
    const size_t rank = work.plan.stages[s].rank;
    const CostRow sum = problem_.table.sum(begin, end);
    const BackwardParts parts = partsOf(begin, end);
    const double time = point.share * slow_[rank];
    const int64_t kept = rounded(double(sum.keptBytes) * point.share);
    work.costs.stages.push_back({rounded(double(sum.forwardNs) * time),
                                 rounded(double(parts.inputGradNs) * time),
                                 rounded(double(parts.weightGradNs) * time), kept,
                                 kept - rounded(double(parts.pendingBytes) * point.share)});
    trained[s] = sum.trainedBytes;
    work.fixedBytes[rank] += sum.weightBytes + sum.trainedBytes * (1 + problem_.optimizer.states);
    for (size_t i = begin; i < end; ++i) {
      stageOf[i] = static_cast<uint32_t>(s);
      largest[rank] = std::max(largest[rank],
                               rounded(double(problem_.table.rows[i].outputBytes) * point.share));
    }
  }
  work.costs.keptToRecompute.assign(stages, 0);
  work.costs.gradientBytes = trained;
  addChannels(point, stageOf, work);
  addShared(point, stageOf, work, trained);
  connect(work);
  for (StageCosts &stage : work.costs.stages)
    if (!problem_.splitBackward)
      stage = stage.unsplit();
    else if (!problem_.table.pending) // W may need all that F kept
      stage.freedByInputGrad = std::min<int64_t>(0, stage.freedByInputGrad);
  for (size_t s = 0; s < stages; ++s)
    work.costs.optimize.push_back(updateNs(work.plan.stages[s].rank, trained[s]));
  bool limited = false;
  for (size_t r = 0; r < problem_.ranks; ++r) {
    work.fixedBytes[r] += 2 * largest[r];
    const std::optional<int64_t> limit = limitOf(r);
    limited |= limit.has_value();
    work.limitBytes.push_back(limit.value_or(INT64_MAX));
  }
  if (!limited)
    work.limitBytes.clear();
  return work;
}

std::vector<int64_t> TrainingStages::leastBytes(const StagedWork &work) {
  std::vector<int64_t> least(work.plan.ranks, 0);
  for (size_t s = 0; s < work.plan.stages.size(); ++s) {
    int64_t &most = least[work.plan.stages[s].rank];
    most = std::max(most, work.costs.stages[s].heldByForward);
  }
  for (size_t r = 0; r < work.plan.ranks; ++r)
    least[r] += work.fixedBytes[r];
  return least;
}

} // namespace pipec
