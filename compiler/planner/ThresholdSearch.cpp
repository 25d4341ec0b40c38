#include "compiler/planner/ThresholdSearch.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace pipec {

namespace {

constexpr double kSlack = 1e-11; // relative; sums of the same numbers in another order differ less

/// One way to fill the devices up to an ideal.
struct Label {
  uint32_t state; // devices used per kind, a mixed-radix number
  uint32_t kind;  // of the last stage
  uint32_t fromIdeal, fromLabel;
  double largest;
};

/// Dynamic programming over the chains, as in Tarnawski et al. (NeurIPS 2020), with three changes:
/// it knows a threshold (the load to beat), looks only at stages whose load is below it, and drops
/// an ideal as soon as the devices that are left could not do the rest of the work below it. With a
/// threshold near the optimum the ideals that remain for j stages are those with almost exactly j
/// devices' work.
class ChainSearch {
public:
  ChainSearch(const Ideals &ideals, const std::vector<DeviceKind> &kinds, double upper)
      : ideals_(ideals), items_(ideals.items()), kinds_(kinds) {
    listStates();
    sumWork();
    lower(upper);
  }

  ChainResult run(const Deadline &deadline) {
    labels_.resize(ideals_.size());
    mark_.assign(items_.netWeight.size(), {kNever, 0});
    if (feasible(0, 0))
      labels_[0].push_back({0, 0, 0, 0, 0});
    uint64_t check = 0;
    for (uint32_t position = 0; position < byWork_.size(); ++position) {
      uint32_t from = byWork_[position];
      if (labels_[from].empty() || from == ideals_.full())
        continue;
      for (uint32_t next = firstCandidate(position); next < byWork_.size(); ++next) {
        uint32_t to = byWork_[next];
        if (work_[to] - work_[from] > threshold_ * (1 + kSlack))
          break;
        if (++check % 65536 == 0 && deadline.passed())
          return finish(false);
        if (useful(from, to) && ideals_.subset(from, to))
          tryStage(from, to);
      }
    }
    return finish(true);
  }

private:
  static constexpr uint32_t kNever = ~0u;

  void listStates() {
    size_t states = 1;
    for (const DeviceKind &kind : kinds_) {
      step_.push_back(static_cast<uint32_t>(states));
      states *= kind.count + 1;
    }
    std::map<uint32_t, uint32_t> rowOf; // mask of kinds with devices left -> row of rest_
    for (uint32_t state = 0; state < states; ++state) {
      uint32_t mask = 0;
      for (size_t kind = 0; kind < kinds_.size(); ++kind)
        if (left(state, kind) > 0)
          mask |= 1u << kind;
      auto [at, added] = rowOf.emplace(mask, static_cast<uint32_t>(weights_.size()));
      if (added)
        weights_.push_back(bestWeights(items_, kinds_, mask));
      row_.push_back(at->second);
      double capacity = 0;
      for (size_t kind = 0; kind < kinds_.size(); ++kind)
        capacity += weights_[at->second][kind] * static_cast<double>(left(state, kind));
      capacity_.push_back(capacity);
    }
  }

  size_t left(uint32_t state, size_t kind) const {
    return kinds_[kind].count - state / step_[kind] % (kinds_[kind].count + 1);
  }

  /// Per ideal: the work inside per kind, and for every row of weights the weighted work outside.
  void sumWork() {
    size_t n = ideals_.size();
    time_.assign(kinds_.size(), std::vector<double>(n, 0));
    memory_.assign(n, 0);
    rest_.assign(weights_.size(), std::vector<double>(n, 0));
    work_.assign(n, 0);
    std::vector<double> itemRest(items_.size() * weights_.size());
    for (uint32_t item = 0; item < items_.size(); ++item)
      for (size_t row = 0; row < weights_.size(); ++row)
        itemRest[item * weights_.size() + row] = weightedTime(items_, item, weights_[row]);
    for (uint32_t ideal = 0; ideal < n; ++ideal)
      for (uint32_t item = 0; item < items_.size(); ++item) {
        const double *rest = &itemRest[item * weights_.size()];
        if (!ideals_.contains(ideal, item)) {
          for (size_t row = 0; row < weights_.size(); ++row)
            rest_[row][ideal] += rest[row];
          continue;
        }
        memory_[ideal] += items_.memory[item];
        work_[ideal] += rest[0];
        for (size_t kind = 0; kind < kinds_.size(); ++kind)
          time_[kind][ideal] += items_.time[kind][item];
      }
    addCutsToRest();
    byWork_.resize(n);
    std::iota(byWork_.begin(), byWork_.end(), 0);
    std::sort(byWork_.begin(), byWork_.end(), [&](uint32_t a, uint32_t b) {
      return std::make_tuple(work_[a], ideals_.count(a), a) <
             std::make_tuple(work_[b], ideals_.count(b), b);
    });
  }

  /// A net with members on both sides of an ideal is paid for by some device after it.
  void addCutsToRest() {
    for (size_t row = 0; row < weights_.size(); ++row) {
      double least = kUnlimited;
      for (size_t kind = 0; kind < kinds_.size(); ++kind)
        if (weights_[row][kind] > 0)
          least = std::min(least, kinds_[kind].paysTransfers ? weights_[row][kind] : 0.0);
      if (least > 0 && least < kUnlimited)
        for (uint32_t ideal = 0; ideal < ideals_.size(); ++ideal)
          rest_[row][ideal] += least * ideals_.cutWeight(ideal);
    }
  }

  /// Only loads below `upper` count from now on.
  void lower(double upper) { threshold_ = upper * (1 - kSlack); }

  bool feasible(uint32_t ideal, uint32_t state) const {
    return threshold_ == kUnlimited ||
           rest_[row_[state]][ideal] <= capacity_[state] * threshold_ * (1 + kSlack);
  }

  /// Whether some way to `from` leaves enough devices for the nodes after `to`.
  bool useful(uint32_t from, uint32_t to) const {
    for (const Label &label : labels_[from])
      for (size_t kind = 0; kind < kinds_.size(); ++kind)
        if (left(label.state, kind) > 0 && feasible(to, label.state + step_[kind]))
          return true;
    return false;
  }

  /// The first end of a stage from this position that the scan tries. Before it, more work is left
  /// than the unused devices can do, whichever devices are in use.
  uint32_t firstCandidate(uint32_t position) const {
    double most = 0;
    for (const Label &label : labels_[byWork_[position]])
      most = std::max(most, rootCapacity(label.state));
    most *= threshold_ * (1 + kSlack);
    double total = work_[ideals_.full()];
    auto at = std::partition_point(byWork_.begin() + position + 1, byWork_.end(),
                                   [&](uint32_t ideal) { return total - work_[ideal] > most; });
    return static_cast<uint32_t>(at - byWork_.begin());
  }

  /// The remaining weight when one more device is used, in the weights of row 0: the smallest one
  /// goes.
  double rootCapacity(uint32_t state) const {
    double capacity = 0, least = kUnlimited;
    for (size_t kind = 0; kind < kinds_.size(); ++kind)
      if (left(state, kind) > 0) {
        capacity += weights_[0][kind] * static_cast<double>(left(state, kind));
        least = std::min(least, weights_[0][kind]);
      }
    return least < kUnlimited ? capacity - least : 0;
  }

  /// Weight of the nets with members inside and outside the stage. A net that only one of the two
  /// ideals cuts is such a net; one that both cut is if the stage holds a member of it.
  double transfers(uint32_t from, uint32_t to) {
    if (marked_ != from) {
      marked_ = from;
      for (const Ideals::Cut *cut = ideals_.cutsBegin(from); cut != ideals_.cutsEnd(from); ++cut)
        mark_[cut->net] = {from, cut->inside};
    }
    double weight = ideals_.cutWeight(from) + ideals_.cutWeight(to);
    for (const Ideals::Cut *cut = ideals_.cutsBegin(to); cut != ideals_.cutsEnd(to); ++cut)
      if (mark_[cut->net].ideal == from)
        weight -= items_.netWeight[cut->net] * (mark_[cut->net].inside == cut->inside ? 2 : 1);
    return std::max(weight, 0.0);
  }

  void tryStage(uint32_t from, uint32_t to) {
    double memory = memory_[to] - memory_[from];
    double moved = -1;
    for (uint32_t kind = 0; kind < kinds_.size(); ++kind) {
      double compute = time_[kind][to] - time_[kind][from];
      if (compute >= threshold_ || memory > kinds_[kind].memory * (1 + kSlack))
        continue;
      if (moved < 0) {
        moved = transfers(from, to);
        ++pairs_;
      }
      const double load = compute + (kinds_[kind].paysTransfers ? moved : 0);
      if (load >= threshold_)
        continue;
      for (uint32_t i = 0; i < labels_[from].size(); ++i) {
        const Label &label = labels_[from][i];
        if (left(label.state, kind) > 0)
          addLabel(to, {label.state + step_[kind], kind, from, i, std::max(label.largest, load)});
      }
    }
  }

  void addLabel(uint32_t ideal, const Label &label) {
    if (label.largest >= threshold_ || !feasible(ideal, label.state))
      return;
    std::vector<Label> &labels = labels_[ideal];
    for (const Label &other : labels)
      if (dominates(other, label))
        return;
    labels.erase(std::remove_if(labels.begin(), labels.end(),
                                [&](const Label &other) { return dominates(label, other); }),
                 labels.end());
    labels.push_back(label);
    if (ideal == ideals_.full()) {
      // Chains to ideals in between stay: they may still be extended to something better.
      found_ = label;
      lower(label.largest);
    }
  }

  bool dominates(const Label &a, const Label &b) const {
    if (a.largest > b.largest)
      return false;
    for (size_t kind = 0; kind < kinds_.size(); ++kind)
      if (left(a.state, kind) < left(b.state, kind))
        return false;
    return true;
  }

  ChainResult finish(bool complete) {
    ChainResult result;
    result.complete = complete;
    result.pairs = pairs_;
    if (found_.state == kNever)
      return result;
    uint32_t ideal = ideals_.full();
    for (Label label = found_; ideal != 0; label = labels_[ideal][label.fromLabel]) {
      result.stages.push_back({ideal, label.kind});
      ideal = label.fromIdeal;
      if (ideal == 0)
        break;
    }
    std::reverse(result.stages.begin(), result.stages.end());
    return result;
  }

  struct Mark {
    uint32_t ideal, inside;
  };

  const Ideals &ideals_;
  const Items &items_;
  const std::vector<DeviceKind> &kinds_;
  double threshold_ = 0;
  std::vector<uint32_t> step_, row_; // per kind; per state
  std::vector<double> capacity_;     // per state, in units of the threshold
  std::vector<KindWeights> weights_; // per row
  std::vector<std::vector<double>> time_, rest_;
  std::vector<double> memory_, work_; // per ideal
  std::vector<uint32_t> byWork_;
  std::vector<std::vector<Label>> labels_;
  std::vector<Mark> mark_;
  uint32_t marked_ = kNever;
  Label found_{kNever, 0, 0, 0, 0};
  uint64_t pairs_ = 0;
};

} // namespace

ChainResult bestChain(const Ideals &ideals, const std::vector<DeviceKind> &kinds, double upper,
                      const Deadline &deadline) {
  return ChainSearch(ideals, kinds, upper).run(deadline);
}

} // namespace pipec
