#include "compiler/planner/hybrid/HybridStages.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace pipec {

namespace {

HybridVariant leastOf(const std::vector<HybridVariant> &variants) {
  HybridVariant least = variants[0];
  for (const HybridVariant &variant : variants)
    for (auto field : {&HybridVariant::time, &HybridVariant::parameterBytes,
                       &HybridVariant::bytesInFlight, &HybridVariant::fixedBytes})
      least.*field = std::min(least.*field, variant.*field);
  return least;
}

std::vector<uint32_t> commonDegrees(const HybridProblem &problem) {
  std::set<uint32_t> degrees;
  for (const auto &[degree, variants] : problem.nodes[0].variants)
    degrees.insert(degree);
  for (const HybridNode &node : problem.nodes)
    for (auto it = degrees.begin(); it != degrees.end();)
      it = node.variants.count(*it) ? std::next(it) : degrees.erase(it);
  return {degrees.begin(), degrees.end()};
}

/// Of parameters that `copies` hold alike, per micro-batch: 4 (d - 1) / d times their bytes, as
/// Piper has it.
double resyncBytes(double parameterBytes, double copies, const HybridProblem &problem) {
  return 4 * (copies - 1) / copies * parameterBytes / static_cast<double>(problem.microBatches);
}

} // namespace

size_t HybridStages::KeyHash::operator()(const HybridStageKey &key) const {
  uint64_t hash = key.ideal;
  for (uint64_t part :
       {uint64_t(key.next), uint64_t(key.degree), uint64_t(key.copies), uint64_t(key.inFlight)})
    hash = (hash ^ part) * 0x9E3779B97F4A7C15u + (hash >> 29);
  return hash;
}

HybridStages::HybridStages(const HybridProblem &problem, const Items &items, const Ideals &ideals)
    : problem_(problem), items_(items), ideals_(ideals), degrees_(commonDegrees(problem)),
      edgesOf_(problem.nodes.size()) {
  std::vector<double> work(problem.nodes.size(), kUnlimited);
  for (uint32_t degree : degrees_) {
    std::vector<HybridVariant> least;
    for (size_t v = 0; v < problem.nodes.size(); ++v) {
      variants_[degree].push_back(&problem.nodes[v].variants.at(degree));
      least.push_back(leastOf(*variants_[degree].back()));
      work[v] = std::min(work[v], least.back().time * degree);
    }
    auto summed = [&](double HybridVariant::*field) {
      return sumOverIdeals([&](size_t v) { return least[v].*field; });
    };
    sums_[degree] = {summed(&HybridVariant::time), summed(&HybridVariant::parameterBytes),
                     summed(&HybridVariant::bytesInFlight), summed(&HybridVariant::fixedBytes)};
  }
  work_ = sumOverIdeals([&](size_t v) { return work[v]; });
  for (uint32_t e = 0; e < problem.edges.size(); ++e) {
    edgesOf_[problem.edges[e].from].push_back(e);
    edgesOf_[problem.edges[e].to].push_back(e);
  }
}

template <typename F> std::vector<double> HybridStages::sumOverIdeals(F &&of) const {
  std::vector<double> sums(ideals_.size(), 0);
  for (uint32_t node = 0; node < items_.itemOf.size(); ++node)
    for (uint32_t ideal = 0; ideal < ideals_.size(); ++ideal)
      if (ideals_.contains(ideal, items_.itemOf[node]))
        sums[ideal] += of(node);
  return sums;
}

double HybridStages::leastTime(const HybridStageKey &key) const {
  const Sums &sums = sums_.at(key.degree);
  const auto d = static_cast<double>(key.copies);
  const double time = sums.time[key.ideal] - sums.time[key.next];
  const double parameters = sums.parameters[key.ideal] - sums.parameters[key.next];
  return (time / d + resyncBytes(parameters, d, problem_) / problem_.bandwidth) *
         (1 - kHybridSlack);
}

void HybridStages::limitMemory(double bytes) {
  memory_ = bytes;
  known_.clear();
}

const HybridStages::Pair &HybridStages::pairOf(uint32_t ideal, uint32_t next) {
  if (pair_ && pair_->ideal == ideal && pair_->next == next)
    return *pair_;
  Pair pair{ideal, next, {}, 0, {}};
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

/// Fills the table of variants; the time of the transfers that no variant changes.
double HybridStages::price(const HybridStageKey &key) {
  const Pair &pair = pairOf(key.ideal, key.next);
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
      const double resync = resyncBytes(variant.parameterBytes, d, problem_);
      table_.costs.push_back({variant.time / d + (sync / d + resync) / problem_.bandwidth,
                              variant.bytesInFlight * inFlight + variant.fixedBytes});
    }
    table_.endItem();
  }
  return pair.bytes / d / problem_.bandwidth;
}

ChoiceAnswer HybridStages::choose(const HybridStageKey &key, double threshold,
                                  std::vector<uint32_t> &choice) {
  const double transfers = price(key);
  return chooseVariants(table_, threshold - transfers, memory_ * (1 - kHybridSlack), choice);
}

ChoiceAnswer HybridStages::fits(const HybridStageKey &key, double threshold) {
  const Sums &sums = sums_.at(key.degree);
  const double memory =
      (sums.inFlight[key.ideal] - sums.inFlight[key.next]) * static_cast<double>(key.inFlight) +
      sums.fixed[key.ideal] - sums.fixed[key.next];
  if (memory * (1 - kHybridSlack) > memory_)
    return ChoiceAnswer::No;
  auto [found, isNew] = known_.try_emplace(key);
  ChoiceBounds &bounds = found->second;
  if (isNew) {
    const double transfers = price(key);
    bounds = boundChoice(table_, memory_ * (1 - kHybridSlack));
    bounds.atLeast += transfers;
    bounds.atMost += transfers;
  }
  if (bounds.atLeast > threshold || bounds.atLeast == kUnlimited)
    return ChoiceAnswer::No;
  if (bounds.atMost <= threshold)
    return ChoiceAnswer::Yes;
  std::vector<uint32_t> choice;
  const ChoiceAnswer answer = choose(key, threshold, choice);
  if (answer == ChoiceAnswer::Yes)
    bounds.atMost = threshold;
  else if (answer == ChoiceAnswer::No)
    bounds.atLeast = std::nextafter(threshold, kUnlimited);
  return answer;
}

ChoiceAnswer HybridStages::rebuild(const HybridStageKey &key, double threshold,
                                   HybridStage &stage) {
  stage.nodes = pairOf(key.ideal, key.next).nodes;
  stage.dataDegree = key.copies;
  stage.tensorDegree = key.degree;
  const double time = std::min(threshold, known_.at(key).atMost) * (1 + kHybridSlack);
  return choose(key, time, stage.variant);
}

} // namespace pipec
