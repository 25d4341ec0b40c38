// Nodes that must stay together become one item: the graph of the searches.
#pragma once

#include "compiler/planner/Partition.h"

#include <cstdint>
#include <vector>

namespace pipec {

/// Rows of different length in one array.
struct RowTable {
  std::vector<uint32_t> start{0}, entries;
  struct Row {
    const uint32_t *first, *last;
    const uint32_t *begin() const { return first; }
    const uint32_t *end() const { return last; }
    size_t size() const { return static_cast<size_t>(last - first); }
    uint32_t operator[](size_t i) const { return first[i]; }
  };
  Row operator[](size_t row) const {
    return {entries.data() + start[row], entries.data() + start[row + 1]};
  }
  size_t size() const { return start.size() - 1; }
  void endRow() { start.push_back(static_cast<uint32_t>(entries.size())); }
  /// Rows from (row, entry) pairs, which it sorts. An entry appears once in a row.
  static RowTable fromPairs(size_t rows, std::vector<std::pair<uint32_t, uint32_t>> &pairs);
};

/// Items in an order that respects `after` (by smallest node where free).
/// A net is the set of items that make or take one output. With S the items of a device, the device
/// pays a net's weight once if it holds some but not all of its members: the maker for sending, a
/// taker for receiving. Which member makes the output does not matter.
struct Items {
  std::vector<std::vector<double>> time; // [kind][item]
  std::vector<double> memory;
  RowTable after;  // items that may not be in an earlier stage
  RowTable before; // the reverse
  std::vector<double> netWeight;
  RowTable netMembers;          // ascending, at least two
  RowTable netsOf;              // ascending
  std::vector<uint32_t> itemOf; // of each node
  size_t size() const { return memory.size(); }
};

/// Groups of nodes that share a device: a union-find.
class Groups {
public:
  explicit Groups(size_t size);
  uint32_t find(uint32_t x);
  /// Returns true if they were separate.
  bool join(uint32_t a, uint32_t b);

private:
  std::vector<uint32_t> parent_;
};

/// Groups of the colour classes.
Groups colorGroups(const PartitionProblem &problem);

/// The items of these groups; groups on a common cycle become one.
Items makeItems(const PartitionProblem &problem, Groups &groups);

} // namespace pipec
