#include "compiler/planner/Bounds.h"

#include <algorithm>

namespace pipec {

namespace {

double boundWith(const Items &items, const std::vector<DeviceKind> &kinds,
                 const KindWeights &weights) {
  double work = 0, devices = 0;
  for (uint32_t item = 0; item < items.size(); ++item)
    work += weightedTime(items, item, weights);
  for (size_t kind = 0; kind < kinds.size(); ++kind)
    devices += weights[kind] * static_cast<double>(kinds[kind].count);
  return devices > 0 ? work / devices : 0;
}

/// Ratios at which the cheapest kind of some item changes: at most `limit`, spread over all.
std::vector<double> ratios(const std::vector<double> &base, const std::vector<double> &other,
                           size_t limit) {
  std::vector<double> all;
  for (size_t item = 0; item < base.size(); ++item)
    if (base[item] > 0 && other[item] > 0)
      all.push_back(base[item] / other[item]);
  std::sort(all.begin(), all.end());
  std::vector<double> result;
  for (size_t i = 0; i < std::min(limit, all.size()); ++i)
    result.push_back(
        all[i * (all.size() - 1) / std::max<size_t>(1, std::min(limit, all.size()) - 1)]);
  return result;
}

} // namespace

double weightedTime(const Items &items, uint32_t item, const KindWeights &weights) {
  double least = kUnlimited;
  for (size_t kind = 0; kind < weights.size(); ++kind)
    if (weights[kind] > 0)
      least = std::min(least, weights[kind] * items.time[kind][item]);
  return least;
}

KindWeights bestWeights(const Items &items, const std::vector<DeviceKind> &kinds, uint32_t mask) {
  KindWeights weights(kinds.size(), 0);
  for (size_t kind = 0; kind < kinds.size(); ++kind)
    if (mask >> kind & 1)
      weights[kind] = 1;
  double best = boundWith(items, kinds, weights);
  for (int round = 0; round < 2; ++round)
    for (size_t kind = 0; kind < kinds.size(); ++kind)
      for (size_t other = 0; other < kinds.size(); ++other) {
        if (kind == other || !weights[kind] || !weights[other])
          continue;
        KindWeights start = weights;
        for (double ratio : ratios(items.time[kind], items.time[other], 40)) {
          KindWeights tried = start;
          tried[other] = start[kind] * ratio;
          double bound = boundWith(items, kinds, tried);
          if (bound > best) {
            best = bound;
            weights = tried;
          }
        }
      }
  double largest = *std::max_element(weights.begin(), weights.end());
  for (double &weight : weights)
    weight /= largest > 0 ? largest : 1;
  return weights;
}

double balanceBound(const Items &items, const std::vector<DeviceKind> &kinds) {
  uint32_t all = (1u << kinds.size()) - 1;
  double bound = boundWith(items, kinds, bestWeights(items, kinds, all));
  KindWeights every(kinds.size(), 1);
  for (uint32_t item = 0; item < items.size(); ++item)
    bound = std::max(bound, weightedTime(items, item, every));
  return bound;
}

} // namespace pipec
