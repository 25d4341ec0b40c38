#include "compiler/planner/Bounds.h"
#include "compiler/planner/Contraction.h"
#include "ir/support/Check.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace pipec {

namespace {

/// Where the items are, with the loads that follow, kept up to date move by move. Which devices a
/// net touches is a count of members on each; the devices' numbers are summed as well, so that the
/// last one left is known without a search.
class Placement {
public:
  Placement(const PartitionProblem &problem, const Items &items, LoadRule rule,
            std::vector<uint32_t> device)
      : items_(items), rule_(rule), device_(std::move(device)) {
    for (size_t kind = 0; kind < problem.kinds.size(); ++kind)
      for (size_t i = 0; i < problem.kinds[kind].count; ++i) {
        kindOf_.push_back(kind);
        scale_.push_back(problem.kinds[kind].transferScale);
        limit_.push_back(problem.kinds[kind].memory);
      }
    devices_ = kindOf_.size();
    members_.assign(items.netWeight.size() * devices_, 0);
    touched_.assign(items.netWeight.size(), 0);
    sumOf_.assign(items.netWeight.size(), 0);
    recount();
  }

  size_t devices() const { return devices_; }
  uint32_t device(uint32_t item) const { return device_[item]; }
  const std::vector<uint32_t> &all() const { return device_; }
  bool allowed(uint32_t item, uint32_t device) const {
    return items_.time[kindOf_[device]][item] < kUnlimited;
  }
  bool fits(uint32_t device) const { return bytes_[device] <= limit_[device]; }
  double load(size_t device) const {
    double cost = scale_[device] * moved_[device];
    return rule_ == LoadRule::Sum ? compute_[device] + cost : std::max(compute_[device], cost);
  }
  double largest() const {
    double most = 0;
    for (size_t d = 0; d < devices_; ++d)
      most = std::max(most, load(d));
    return most;
  }

  void move(uint32_t item, uint32_t to) {
    uint32_t from = device_[item];
    device_[item] = to;
    compute_[from] -= items_.time[kindOf_[from]][item];
    compute_[to] += items_.time[kindOf_[to]][item];
    bytes_[from] -= items_.memory[item];
    bytes_[to] += items_.memory[item];
    for (uint32_t net : items_.netsOf[item]) {
      leave(net, from);
      enter(net, to);
    }
  }

  /// All sums afresh: a long row of moves lets rounding errors grow.
  void recount() {
    compute_.assign(devices_, 0);
    moved_.assign(devices_, 0);
    bytes_.assign(devices_, 0);
    std::fill(members_.begin(), members_.end(), 0);
    std::fill(touched_.begin(), touched_.end(), 0);
    std::fill(sumOf_.begin(), sumOf_.end(), 0);
    for (uint32_t item = 0; item < items_.size(); ++item) {
      compute_[device_[item]] += items_.time[kindOf_[device_[item]]][item];
      bytes_[device_[item]] += items_.memory[item];
      for (uint32_t net : items_.netsOf[item])
        enter(net, device_[item]);
    }
  }

private:
  void leave(uint32_t net, uint32_t device) {
    if (--members_[net * devices_ + device] > 0)
      return;
    double weight = items_.netWeight[net];
    sumOf_[net] -= device;
    if (--touched_[net] >= 1)
      moved_[device] -= weight;
    if (touched_[net] == 1)
      moved_[sumOf_[net]] -= weight;
  }
  void enter(uint32_t net, uint32_t device) {
    if (members_[net * devices_ + device]++ > 0)
      return;
    double weight = items_.netWeight[net];
    if (touched_[net] == 1)
      moved_[sumOf_[net]] += weight;
    if (++touched_[net] >= 2)
      moved_[device] += weight;
    sumOf_[net] += device;
  }

  const Items &items_;
  LoadRule rule_;
  size_t devices_ = 0;
  std::vector<uint32_t> device_;
  std::vector<size_t> kindOf_;
  std::vector<double> scale_, limit_, compute_, moved_, bytes_;
  std::vector<uint32_t> members_, touched_, sumOf_; // members: [net][device]
};

/// xorshift64* (Marsaglia 2003, Vigna 2016): the standard distributions may differ between
/// libraries.
class Random {
public:
  explicit Random(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 1) {}
  uint32_t below(size_t n) { return static_cast<uint32_t>((next() >> 32) * n >> 32); }
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }

private:
  uint64_t next() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 0x2545F4914F6CDD1Du;
  }
  uint64_t state_;
};

/// One cooling after the other from the best placement so far.
class Annealing {
public:
  Annealing(const PartitionProblem &problem, const Items &items, LoadRule rule,
            std::vector<uint32_t> start)
      : items_(items), best_(start), place_(problem, items, rule, std::move(start)),
        unit_(place_.largest()), bestLoad_(unit_), mark_(items.size(), 0) {}

  void cool(size_t proposals, double hot, double cold, uint64_t seed, const Deadline &deadline) {
    Random random(seed);
    double energy = energyNow();
    double temperature = hot;
    constexpr size_t kStep = 4096;
    double factor = std::pow(cold / hot, static_cast<double>(kStep) /
                                             static_cast<double>(std::max(proposals, kStep)));
    for (size_t i = 0; i < proposals; ++i) {
      if (i % kStep == kStep - 1) {
        temperature *= factor;
        if (deadline.passed())
          break;
        if (i % (kStep << 8) == (kStep << 8) - 1) {
          place_.recount();
          energy = energyNow();
        }
      }
      if (!propose(random))
        continue;
      double after = energyNow();
      bool fits = true;
      for (auto [item, from] : moves_)
        fits = fits && place_.fits(place_.device(item));
      if (fits && (after <= energy || random.unit() < std::exp((energy - after) / temperature))) {
        energy = after;
        keepIfBest();
      } else {
        for (auto at = moves_.rbegin(); at != moves_.rend(); ++at)
          place_.move(at->first, at->second);
      }
    }
  }

  void restart() {
    for (uint32_t item = 0; item < items_.size(); ++item)
      if (place_.device(item) != best_[item])
        place_.move(item, best_[item]);
    place_.recount();
  }

  const std::vector<uint32_t> &best() const { return best_; }
  double bestLoad() const { return bestLoad_; }

private:
  /// The largest load, softened (a norm of power 32, relative to the first): moves that help any
  /// loaded device count, before the largest one can fall.
  double energyNow() const {
    double sum = 0;
    for (size_t d = 0; d < place_.devices(); ++d) {
      double x = place_.load(d) / unit_;
      x *= x, x *= x, x *= x, x *= x;
      sum += x * x;
    }
    return std::log(sum) / 32;
  }

  void keepIfBest() {
    double load = place_.largest();
    if (load < bestLoad_ * (1 - 1e-12)) {
      bestLoad_ = load;
      best_ = place_.all();
    }
  }

  void apply(uint32_t item, uint32_t to) {
    moves_.emplace_back(item, place_.device(item));
    place_.move(item, to);
  }

  /// A device that a neighbour of the item is on, sometimes any other.
  uint32_t target(uint32_t item, Random &random) {
    RowTable::Row nets = items_.netsOf[item];
    if (nets.size() > 0 && random.below(8) != 0) {
      RowTable::Row members = items_.netMembers[nets[random.below(nets.size())]];
      for (int attempt = 0; attempt < 3; ++attempt) {
        uint32_t device = place_.device(members[random.below(members.size())]);
        if (device != place_.device(item))
          return device;
      }
    }
    return random.below(place_.devices());
  }

  /// Items around `item` on its device, up to a size.
  void fragment(uint32_t item, size_t size, Random &random) {
    uint32_t device = place_.device(item);
    ++round_;
    queue_.assign(1, item);
    mark_[item] = round_;
    for (size_t at = 0; at < queue_.size() && queue_.size() < size; ++at) {
      RowTable::Row nets = items_.netsOf[queue_[at]];
      uint32_t turn = nets.size() > 0 ? random.below(nets.size()) : 0;
      for (size_t i = 0; i < nets.size() && queue_.size() < size; ++i) {
        RowTable::Row members = items_.netMembers[nets[(i + turn) % nets.size()]];
        for (uint32_t other : members) {
          if (queue_.size() >= size || mark_[other] == round_ || place_.device(other) != device)
            continue;
          mark_[other] = round_;
          queue_.push_back(other);
        }
      }
    }
  }

  bool moveQueue(uint32_t to) {
    for (uint32_t item : queue_)
      if (place_.allowed(item, to))
        apply(item, to);
    return !moves_.empty();
  }

  /// Applies a move at random. False: nothing was moved.
  bool propose(Random &random) {
    moves_.clear();
    uint32_t item = random.below(items_.size());
    uint32_t to = target(item, random), from = place_.device(item);
    if (to == from)
      return false;
    switch (random.below(8)) {
    case 0: { // a fragment goes
      size_t most = std::min<size_t>(items_.size() / 3 + 2, 256);
      fragment(item, 2 + static_cast<size_t>(std::pow(static_cast<double>(most), random.unit())),
               random);
      return moveQueue(to);
    }
    case 1: { // two fragments change places
      uint32_t other = random.below(items_.size());
      for (int attempt = 0; attempt < 4 && place_.device(other) != to; ++attempt)
        other = random.below(items_.size());
      if (place_.device(other) != to)
        return false;
      double most = static_cast<double>(std::min<size_t>(items_.size() / 6 + 2, 64));
      fragment(item, 1 + static_cast<size_t>(std::pow(most, random.unit())), random);
      std::vector<uint32_t> &first = other_;
      first = queue_;
      fragment(other, 1 + static_cast<size_t>(std::pow(most, random.unit())), random);
      moveQueue(from);
      queue_.swap(first);
      return moveQueue(to);
    }
    case 2: { // a net's members come together
      RowTable::Row nets = items_.netsOf[item];
      if (nets.size() == 0)
        return false;
      RowTable::Row members = items_.netMembers[nets[random.below(nets.size())]];
      if (members.size() > 64)
        return false;
      queue_.clear();
      for (uint32_t member : members)
        if (place_.device(member) != to)
          queue_.push_back(member);
      return moveQueue(to);
    }
    default:
      if (!place_.allowed(item, to))
        return false;
      apply(item, to);
      return true;
    }
  }

  const Items &items_;
  std::vector<uint32_t> best_;
  Placement place_;
  double unit_, bestLoad_;
  std::vector<std::pair<uint32_t, uint32_t>> moves_; // item, where it was
  std::vector<uint32_t> queue_, other_, mark_;
  uint32_t round_ = 0;
};

/// Where bytes matter more than contiguity: the largest items first, each to the allowed device
/// with the most room. Empty: does not fit so.
std::vector<uint32_t> packByBytes(const PartitionProblem &problem, const Items &items) {
  std::vector<double> room;
  std::vector<size_t> kindOf;
  for (size_t kind = 0; kind < problem.kinds.size(); ++kind) {
    room.insert(room.end(), problem.kinds[kind].count, problem.kinds[kind].memory);
    kindOf.insert(kindOf.end(), problem.kinds[kind].count, kind);
  }
  std::vector<uint32_t> order(items.size()), device(items.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return items.memory[a] > items.memory[b]; });
  for (uint32_t item : order) {
    size_t best = room.size();
    for (size_t d = 0; d < room.size(); ++d)
      if (items.time[kindOf[d]][item] < kUnlimited && (best == room.size() || room[d] > room[best]))
        best = d;
    if (best == room.size() || room[best] < items.memory[item])
      return {};
    room[best] -= items.memory[item];
    device[item] = static_cast<uint32_t>(best);
  }
  return device;
}

/// Of each node, from those of items.
std::vector<uint32_t> deviceOfNodes(const Items &items, const std::vector<uint32_t> &device) {
  std::vector<uint32_t> result;
  for (uint32_t item : items.itemOf)
    result.push_back(device[item]);
  return result;
}

} // namespace

llvm::Expected<PartitionResult> placeFreely(const PartitionProblem &problem,
                                            const PartitionOptions &options) {
  if (options.objective.microBatches > 0)
    return failf(ExitCode::Usage,
                 "free placement: expected the largest load as objective, got the latency of {} "
                 "micro-batches",
                 options.objective.microBatches);
  Deadline deadline(options.seconds);
  LoadRule rule = options.objective.load;
  Groups groups = colorGroups(problem);
  Items items = makeUnorderedItems(problem, groups);
  PartitionOptions first = options;
  first.seconds = options.seconds / 2;
  llvm::Expected<PartitionResult> result = partitionContiguous(problem, first);
  if (!result) {
    ErrorText error = describe(result.takeError());
    std::vector<uint32_t> packed =
        error.code == ExitCode::NoPlan ? packByBytes(problem, items) : std::vector<uint32_t>();
    if (packed.empty())
      return makeError(error.code, error.message, error.help);
    result = PartitionResult();
    result->device = deviceOfNodes(items, packed);
    std::vector<double> loads = deviceLoads(problem, result->device, rule);
    result->bottleneck = result->value = *std::max_element(loads.begin(), loads.end());
  }
  if (result->device.empty())
    return result;
  // Just above, so that what the start itself separates is not joined.
  while (joinInseparable(problem, items, rule, result->bottleneck * (1 + 1e-9), groups))
    items = makeUnorderedItems(problem, groups);
  result->lowerBound = std::min(result->bottleneck, balanceBound(items, problem.kinds));
  std::vector<uint32_t> start(items.size());
  for (uint32_t node = 0; node < problem.nodes(); ++node)
    start[items.itemOf[node]] = result->device[node];
  Annealing annealing(problem, items, rule, start);
  constexpr size_t kRounds = 12;
  for (size_t round = 0; round < kRounds && items.size() > 0; ++round) {
    double hot = round % 2 == 0 ? 0.1 : 0.01;
    annealing.cool(options.proposals / kRounds, hot, 1e-5, round + 1, deadline);
    annealing.restart();
  }
  std::vector<uint32_t> device = deviceOfNodes(items, annealing.best());
  std::vector<double> loads = deviceLoads(problem, device, rule);
  double load = *std::max_element(loads.begin(), loads.end());
  if (load < result->bottleneck) {
    result->device = std::move(device);
    result->stages.clear();
    result->bottleneck = result->value = load;
  }
  PIPEC_ASSERT(result->lowerBound <= result->value * (1 + 1e-9),
               "a placement is better than any can be");
  result->proved = result->lowerBound >= result->value * (1 - 1e-9);
  result->items = items.size();
  result->seconds = deadline.elapsed();
  return result;
}

} // namespace pipec
