// What must stay together, as one item: the graph that the searches see.
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
  /// Rows from (row, entry) pairs, which it sorts; each entry once in a row.
  static RowTable fromPairs(size_t rows, std::vector<std::pair<uint32_t, uint32_t>> &pairs);
};

/// Items in an order that respects `after` and the segments (by smallest node where free).
/// A net is the set of items that make or take one output. With S the items of a device, the device
/// pays a net's weight once if it holds some but not all of its members: the maker for sending, a
/// taker for receiving. Which member makes the output does not matter.
struct Items {
  std::vector<std::vector<double>> time; // [kind][item]
  std::vector<double> memory;
  std::vector<uint32_t> segment;
  RowTable after;  // items that may not be in an earlier stage
  RowTable before; // the reverse
  std::vector<double> netWeight;
  RowTable netMembers;              // ascending, at least two
  RowTable netsOf;                  // ascending
  std::vector<uint32_t> itemOf;     // of each node
  std::vector<uint32_t> segmentEnd; // items of segments up to each one
  size_t size() const { return memory.size(); }
};

/// Groups of nodes that share a device: a union-find.
class Groups {
public:
  explicit Groups(size_t size);
  uint32_t find(uint32_t x);
  /// True: they were apart.
  bool join(uint32_t a, uint32_t b);

private:
  std::vector<uint32_t> parent_;
};

/// Colour classes.
Groups colorGroups(const PartitionProblem &problem);

/// The items of these groups; groups on a common cycle become one. Errors: Usage for a group or
/// edge that contradicts the segments.
llvm::Expected<Items> makeItems(const PartitionProblem &problem, Groups &groups);

/// The same without any order or segment: for assignments that need not be contiguous.
Items makeUnorderedItems(const PartitionProblem &problem, Groups &groups);

} // namespace pipec
