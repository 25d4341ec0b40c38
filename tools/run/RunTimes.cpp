#include "tools/run/RunTimes.h"

#include "ir/costs/Cluster.h"
#include "ir/support/Median.h"

#include <algorithm>
#include <map>
#include <optional>

namespace pipec {

namespace {

/// By stage and kind, then by micro-batch.
using Samples = std::map<std::pair<size_t, OpKind>, std::map<int64_t, std::vector<int64_t>>>;

Samples samplesOf(const std::deque<RunTrace> &traces) {
  Samples samples;
  for (const RunTrace &trace : traces)
    for (size_t r = 0; r < trace.ranks.size(); ++r)
      for (size_t i = 0; i < trace.ranks[r].size(); ++i) {
        const Op &op = trace.program.ranks[r][i];
        if (isCompute(op.kind) || op.kind == OpKind::Optimize)
          samples[{op.stage, op.kind}][op.microBatch].push_back(trace.ranks[r][i].end -
                                                                trace.ranks[r][i].start);
      }
  return samples;
}

/// 0: the stage has no such op. Micro-batches differ from each other in the same way in every step:
/// the first one finds cold caches.
int64_t timeOf(const Samples &samples, size_t stage, OpKind kind) {
  const auto found = samples.find({stage, kind});
  if (found == samples.end())
    return 0;
  int64_t sum = 0;
  for (const auto &[microBatch, times] : found->second)
    sum += medianOf(times);
  return sum / static_cast<int64_t>(found->second.size());
}

/// What the norm takes in one step: the rank that comes last does not wait for the others.
int64_t normOf(const RunTrace &trace) {
  std::optional<int64_t> least;
  for (size_t r = 0; r < trace.ranks.size(); ++r)
    for (size_t i = 0; i < trace.ranks[r].size(); ++i)
      if (trace.program.ranks[r][i].kind == OpKind::Norm) {
        const int64_t ns = trace.ranks[r][i].end - trace.ranks[r][i].start;
        least = std::min(least.value_or(ns), ns);
      }
  return least.value_or(0);
}

} // namespace

void RunTimes::add(RunTrace trace) {
  traces_.push_back(std::move(trace));
  if (traces_.size() > kMost)
    traces_.pop_front();
}

double meanBubble(const Timing &timing, int64_t span) {
  const double capacity = static_cast<double>(span) * static_cast<double>(timing.busy.size());
  int64_t work = 0;
  for (int64_t busy : timing.busy)
    work += busy;
  return capacity > 0 ? std::max(0.0, 1 - static_cast<double>(work) / capacity) : 0;
}

ProgramCosts RunTimes::costs(const Plan &plan) const {
  const Samples samples = samplesOf(traces_);
  ProgramCosts costs;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    // A stage may have both, as those of dualpipev. With whole backwards alone, one counts as I,
    // with W of no time.
    const int64_t inputGrad = timeOf(samples, s, OpKind::InputGrad);
    const int64_t weightGrad = timeOf(samples, s, OpKind::WeightGrad);
    const int64_t whole = timeOf(samples, s, OpKind::Backward);
    const bool isSplit = inputGrad || weightGrad;
    costs.stages.push_back({timeOf(samples, s, OpKind::Forward), isSplit ? inputGrad : whole,
                            isSplit ? weightGrad : 0, 0, 0});
    costs.wholeBackward.push_back(whole ? whole : inputGrad + weightGrad);
    costs.recompute.push_back(timeOf(samples, s, OpKind::Recompute));
    costs.optimize.push_back(timeOf(samples, s, OpKind::Optimize));
  }
  std::vector<int64_t> norms;
  for (const RunTrace &trace : traces_)
    norms.push_back(normOf(trace));
  costs.norm = medianOf(std::move(norms));
  const ClusterLink link = defaultCluster(1).links.front();
  costs.link = {link.latencyNs, link.bytesPerSecond};
  return costs;
}

llvm::Expected<SimulatedRun> RunTimes::simulated(const Plan &plan) const {
  return simulate(last()->program, plan, last()->shape, costs(plan));
}

llvm::Expected<int64_t> RunTimes::simulatedBeforeLast(const Plan &plan, int64_t batches) const {
  if (batches == 1)
    return 0;
  ProgramCosts costs = this->costs(plan);
  costs.norm = 0;
  costs.optimize.assign(costs.optimize.size(), 0);
  const SimulatedRun one =
      TRY(simulate(last()->program, plan, last()->shape, costs, /*keepIntervals=*/false));
  return (batches - 1) * one.makespan;
}

} // namespace pipec
