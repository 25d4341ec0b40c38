#include "compiler/planner/Contraction.h"

#include "compiler/planner/Bounds.h"

#include <algorithm>
#include <numeric>

namespace pipec {

namespace {

/// A node of every item.
std::vector<uint32_t> firstNodes(const Items &items) {
  std::vector<uint32_t> result(items.size(), 0);
  for (auto node = static_cast<uint32_t>(items.itemOf.size()); node-- > 0;)
    result[items.itemOf[node]] = node;
  return result;
}

/// An item that `item` can join: the only one that it has an order with, and a member of all its
/// nets. None: `item` itself.
uint32_t onlyNeighbour(const Items &items, uint32_t item) {
  uint32_t found = item;
  for (const RowTable *order : {&items.after, &items.before})
    for (uint32_t other : (*order)[item]) {
      if (found != item && found != other)
        return item;
      found = other;
    }
  RowTable::Row nets = items.netsOf[item];
  if (found == item && nets.size() > 0) {
    RowTable::Row members = items.netMembers[nets[0]];
    found = members[0] != item ? members[0] : members[1];
  }
  bool shared = std::all_of(nets.begin(), nets.end(), [&](uint32_t net) {
    RowTable::Row members = items.netMembers[net];
    return std::binary_search(members.begin(), members.end(), found);
  });
  return shared ? found : item;
}

bool canMemoryBind(const PartitionProblem &problem, const Items &items) {
  double least = kUnlimited;
  for (const DeviceKind &kind : problem.kinds)
    least = std::min(least, kind.memory);
  return std::accumulate(items.memory.begin(), items.memory.end(), 0.0) > least;
}

constexpr size_t kMostReachable = 6000; // items: a bit for each pair of them

/// Which items come before others (or after them) at any distance.
class Reachability {
public:
  /// `next` of each item; its entries have larger numbers (`upward`) or smaller ones.
  Reachability(const RowTable &next, bool upward)
      : next_(next), words_((next.size() + 63) / 64), bits_(next.size() * words_, 0) {
    const auto count = static_cast<uint32_t>(next.size());
    for (uint32_t step = 0; step < count; ++step) {
      const uint32_t item = upward ? count - 1 - step : step;
      uint64_t *bits = &bits_[item * words_];
      for (uint32_t other : next[item]) {
        const uint64_t *more = &bits_[other * words_];
        for (size_t word = 0; word < words_; ++word)
          bits[word] |= more[word];
        bits[other / 64] |= uint64_t(1) << (other % 64);
      }
    }
  }

  /// The neighbour from which all others of `item` can be reached; `item` if no neighbour is one.
  uint32_t onlyOne(uint32_t item) const {
    for (uint32_t one : next_[item])
      if (std::all_of(next_[item].begin(), next_[item].end(), [&](uint32_t other) {
            return other == one || (bits_[one * words_ + other / 64] >> (other % 64) & 1);
          }))
        return one;
    return item;
  }

private:
  const RowTable &next_;
  size_t words_;
  std::vector<uint64_t> bits_;
};

/// Whether moving `item` to the stage of `other` makes no load larger, for any stages of the two.
/// The new stage gains the item's time and at most the nets without `other`, and the old stage
/// loses them. A net of only these two is no longer sent.
bool relieves(const PartitionProblem &problem, const Items &items, uint32_t item, uint32_t other) {
  double more = 0, less = 0;
  for (uint32_t net : items.netsOf[item]) {
    RowTable::Row members = items.netMembers[net];
    if (!std::binary_search(members.begin(), members.end(), other))
      more += items.netWeight[net];
    else if (members.size() == 2)
      less += items.netWeight[net];
  }
  for (size_t kind = 0; kind < problem.kinds.size(); ++kind) {
    const double time = items.time[kind][item];
    if (problem.kinds[kind].paysTransfers ? time + more > less : time > 0)
      return false;
  }
  return true;
}

struct Bond {
  uint32_t a, b;
  double weight;
};

/// Pairs of items and the weight of the nets that hold both. Of a large net only the pairs with its
/// first member.
std::vector<Bond> bonds(const Items &items) {
  constexpr size_t kAllPairs = 6;
  std::vector<Bond> all;
  for (uint32_t net = 0; net < items.netWeight.size(); ++net) {
    RowTable::Row members = items.netMembers[net];
    size_t firsts = members.size() <= kAllPairs ? members.size() : 1;
    for (size_t i = 0; i < firsts; ++i)
      for (size_t j = i + 1; j < members.size(); ++j)
        all.push_back({members[i], members[j], items.netWeight[net]});
  }
  std::stable_sort(all.begin(), all.end(), [](const Bond &x, const Bond &y) {
    return std::make_pair(x.a, x.b) < std::make_pair(y.a, y.b);
  });
  std::vector<Bond> result;
  for (const Bond &bond : all)
    if (!result.empty() && result.back().a == bond.a && result.back().b == bond.b)
      result.back().weight += bond.weight;
    else
      result.push_back(bond);
  return result;
}

bool separable(const PartitionProblem &problem, const Items &items, const Bond &bond,
               double threshold) {
  auto fits = [&](uint32_t item, size_t kind) {
    const double moved = problem.kinds[kind].paysTransfers ? bond.weight : 0;
    return items.time[kind][item] + moved < threshold;
  };
  for (size_t one = 0; one < problem.kinds.size(); ++one)
    for (size_t other = 0; other < problem.kinds.size(); ++other) {
      size_t needed = one == other ? 2 : 1;
      if (problem.kinds[one].count >= needed && problem.kinds[other].count >= needed &&
          fits(bond.a, one) && fits(bond.b, other))
        return true;
    }
  return false;
}

} // namespace

bool joinFreeLeaves(const PartitionProblem &problem, const Items &items, Groups &groups) {
  const bool memoryBinds = canMemoryBind(problem, items);
  std::vector<uint32_t> node = firstNodes(items);
  bool joined = false;
  for (uint32_t item = 0; item < items.size(); ++item) {
    bool free = !memoryBinds || items.memory[item] == 0;
    for (const std::vector<double> &times : items.time)
      free = free && times[item] == 0;
    uint32_t other = free ? onlyNeighbour(items, item) : item;
    if (other != item)
      joined |= groups.join(node[item], node[other]);
  }
  return joined;
}

bool joinFollowers(const PartitionProblem &problem, const Items &items, Groups &groups) {
  if (items.size() > kMostReachable)
    return false;
  const bool memoryBinds = canMemoryBind(problem, items);
  const Reachability before(items.before, false), after(items.after, true);
  std::vector<uint32_t> node = firstNodes(items);
  // A property of an item stays valid while others grow, until it grows itself.
  std::vector<bool> grown(items.size(), false);
  bool joined = false;
  for (uint32_t item = 0; item < items.size(); ++item) {
    if (grown[item] || (memoryBinds && items.memory[item] > 0))
      continue;
    for (uint32_t other : {before.onlyOne(item), after.onlyOne(item)})
      if (other != item && relieves(problem, items, item, other)) {
        joined |= groups.join(node[item], node[other]);
        grown[other] = grown[item] = true;
        break;
      }
  }
  return joined;
}

bool joinInseparable(const PartitionProblem &problem, const Items &items, double threshold,
                     Groups &groups) {
  std::vector<uint32_t> node = firstNodes(items);
  bool joined = false;
  for (const Bond &bond : bonds(items))
    if (!separable(problem, items, bond, threshold))
      joined |= groups.join(node[bond.a], node[bond.b]);
  return joined;
}

double contractionBound(const PartitionProblem &problem, const Groups &groups, double lower,
                        double upper) {
  auto refuted = [&](double threshold) {
    Groups joined = groups;
    while (true) {
      const Items items = makeItems(problem, joined);
      if (balanceBound(items, problem.kinds) >= threshold)
        return true;
      if (!joinInseparable(problem, items, threshold, joined))
        return false;
    }
  };
  for (int step = 0; step < 12 && upper - lower > 1e-6 * upper; ++step) {
    double middle = lower + (upper - lower) / 2;
    (refuted(middle) ? lower : upper) = middle;
  }
  return lower;
}

} // namespace pipec
