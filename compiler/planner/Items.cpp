#include "compiler/planner/Items.h"

#include <algorithm>
#include <numeric>
#include <queue>
#include <unordered_map>

namespace pipec {

namespace {

using Pairs = std::vector<std::pair<uint32_t, uint32_t>>;

/// Strongly connected components (Tarjan, without recursion): component of each vertex.
std::vector<uint32_t> components(const RowTable &next) {
  constexpr uint32_t kNone = ~0u;
  size_t n = next.size();
  std::vector<uint32_t> index(n, kNone), low(n), result(n, kNone), stack, path, edge(n);
  uint32_t counter = 0, found = 0;
  for (uint32_t root = 0; root < n; ++root) {
    if (index[root] != kNone)
      continue;
    path.push_back(root);
    while (!path.empty()) {
      uint32_t v = path.back();
      if (index[v] == kNone) {
        index[v] = low[v] = counter++;
        edge[v] = next.start[v];
        stack.push_back(v);
      }
      bool deeper = false;
      for (; edge[v] < next.start[v + 1]; ++edge[v]) {
        uint32_t w = next.entries[edge[v]];
        if (index[w] == kNone) {
          path.push_back(w);
          deeper = true;
          break;
        }
        if (result[w] == kNone)
          low[v] = std::min(low[v], low[w]);
      }
      if (deeper)
        continue;
      path.pop_back();
      if (low[v] != index[v])
        continue;
      uint32_t w;
      do {
        w = stack.back();
        stack.pop_back();
        result[w] = found;
      } while (w != v);
      ++found;
    }
  }
  return result;
}

/// Components in an order that respects the edges: the lowest first node comes first.
std::vector<uint32_t> topologicalOrder(const RowTable &next,
                                       const std::vector<uint32_t> &priority) {
  std::vector<uint32_t> waits(next.size(), 0), result;
  for (uint32_t target : next.entries)
    ++waits[target];
  using Entry = std::pair<uint32_t, uint32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>> ready;
  for (uint32_t v = 0; v < next.size(); ++v)
    if (!waits[v])
      ready.push({priority[v], v});
  while (!ready.empty()) {
    const uint32_t v = ready.top().second;
    ready.pop();
    result.push_back(v);
    for (uint32_t w : next[v])
      if (--waits[w] == 0)
        ready.push({priority[w], w});
  }
  return result;
}

/// Times and bytes of the items.
void addWork(const PartitionProblem &problem, size_t count, Items &items) {
  items.memory.assign(count, 0);
  items.time.assign(problem.kinds.size(), std::vector<double>(count, 0));
  for (uint32_t node = 0; node < problem.nodes(); ++node) {
    uint32_t item = items.itemOf[node];
    items.memory[item] += problem.memory[node];
    for (size_t kind = 0; kind < problem.kinds.size(); ++kind)
      items.time[kind][item] += problem.time[kind][node];
  }
}

/// The nets of an item graph; equal sets become one.
void addNets(const PartitionProblem &problem, Items &items) {
  Pairs uses;
  for (auto [source, target] : problem.edges)
    if (problem.outCost[source] > 0 && items.itemOf[source] != items.itemOf[target])
      uses.emplace_back(source, items.itemOf[target]);
  RowTable takers = RowTable::fromPairs(problem.nodes(), uses);
  RowTable all;
  std::vector<double> weight;
  std::vector<std::pair<uint64_t, uint32_t>> byHash;
  for (uint32_t node = 0; node < problem.nodes(); ++node) {
    RowTable::Row row = takers[node];
    if (row.size() == 0)
      continue;
    size_t first = all.entries.size();
    all.entries.insert(all.entries.end(), row.begin(), row.end());
    all.entries.push_back(items.itemOf[node]);
    std::sort(all.entries.begin() + static_cast<std::ptrdiff_t>(first), all.entries.end());
    all.endRow();
    uint64_t hash = 0;
    for (size_t i = first; i < all.entries.size(); ++i)
      hash = (hash ^ all.entries[i]) * 0x9E3779B97F4A7C15u + (hash >> 29);
    byHash.emplace_back(hash, static_cast<uint32_t>(weight.size()));
    weight.push_back(problem.outCost[node]);
  }
  auto same = [&](uint32_t a, uint32_t b) {
    return std::equal(all[a].begin(), all[a].end(), all[b].begin(), all[b].end());
  };
  std::sort(byHash.begin(), byHash.end());
  for (size_t i = 1; i < byHash.size(); ++i)
    if (byHash[i].first == byHash[i - 1].first && same(byHash[i].second, byHash[i - 1].second)) {
      weight[byHash[i].second] += weight[byHash[i - 1].second];
      weight[byHash[i - 1].second] = 0;
    }
  Pairs memberships;
  for (uint32_t net = 0; net < weight.size(); ++net) {
    if (weight[net] == 0)
      continue;
    for (uint32_t member : all[net])
      memberships.emplace_back(member, static_cast<uint32_t>(items.netWeight.size()));
    items.netMembers.entries.insert(items.netMembers.entries.end(), all[net].begin(),
                                    all[net].end());
    items.netMembers.endRow();
    items.netWeight.push_back(weight[net]);
  }
  items.netsOf = RowTable::fromPairs(items.size(), memberships);
}

} // namespace

RowTable RowTable::fromPairs(size_t rows, Pairs &pairs) {
  // Two counting passes, by entry within rows and then by row, would also do; sorting within rows
  // is quicker because rows are short.
  RowTable table;
  table.start.assign(rows + 1, 0);
  for (auto [row, entry] : pairs)
    ++table.start[row + 1];
  std::partial_sum(table.start.begin(), table.start.end(), table.start.begin());
  std::vector<uint32_t> place(table.start.begin(), table.start.end() - 1);
  table.entries.resize(pairs.size());
  for (auto [row, entry] : pairs)
    table.entries[place[row]++] = entry;
  uint32_t kept = 0;
  for (size_t row = 0; row < rows; ++row) {
    auto first = table.entries.begin() + table.start[row];
    auto last = table.entries.begin() + table.start[row + 1];
    std::sort(first, last);
    last = std::unique(first, last);
    table.start[row] = kept;
    kept = static_cast<uint32_t>(std::copy(first, last, table.entries.begin() + kept) -
                                 table.entries.begin());
  }
  table.start[rows] = kept;
  table.entries.resize(kept);
  return table;
}

Groups::Groups(size_t size) : parent_(size) { std::iota(parent_.begin(), parent_.end(), 0); }

uint32_t Groups::find(uint32_t x) {
  while (parent_[x] != x)
    x = parent_[x] = parent_[parent_[x]];
  return x;
}

bool Groups::join(uint32_t a, uint32_t b) {
  a = find(a);
  b = find(b);
  parent_[std::max(a, b)] = std::min(a, b);
  return a != b;
}

Groups colorGroups(const PartitionProblem &problem) {
  Groups groups(problem.nodes());
  std::unordered_map<int64_t, uint32_t> first;
  for (uint32_t node = 0; node < problem.color.size(); ++node)
    if (problem.color[node] != -1)
      groups.join(first.emplace(problem.color[node], node).first->second, node);
  return groups;
}

Items makeItems(const PartitionProblem &problem, Groups &groups) {
  constexpr uint32_t kNone = ~0u;
  size_t n = problem.nodes();
  Pairs edges = problem.order;
  for (auto &[source, target] : edges) {
    source = groups.find(source);
    target = groups.find(target);
  }
  Pairs sorted = edges;
  std::vector<uint32_t> component = components(RowTable::fromPairs(n, sorted));

  std::vector<uint32_t> firstNode(n, kNone); // of each component that holds a group
  for (uint32_t node = 0; node < n; ++node) {
    uint32_t &first = firstNode[component[groups.find(node)]];
    first = std::min(first, node);
  }
  Pairs quotient;
  for (auto [source, target] : edges)
    if (component[source] != component[target])
      quotient.emplace_back(component[source], component[target]);
  sorted = quotient;
  std::vector<uint32_t> number(n, 0);
  uint32_t count = 0;
  for (uint32_t c : topologicalOrder(RowTable::fromPairs(n, sorted), firstNode))
    if (firstNode[c] != kNone) // not a node that is not the first of its group
      number[c] = count++;
  Items items;
  items.itemOf.resize(n);
  for (uint32_t node = 0; node < n; ++node)
    items.itemOf[node] = number[component[groups.find(node)]];
  addWork(problem, count, items);
  Pairs reversed;
  for (auto &[source, target] : quotient) {
    source = number[source];
    target = number[target];
    reversed.emplace_back(target, source);
  }
  items.after = RowTable::fromPairs(count, quotient);
  items.before = RowTable::fromPairs(count, reversed);
  addNets(problem, items);
  return items;
}

} // namespace pipec
