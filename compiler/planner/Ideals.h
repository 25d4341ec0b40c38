// Ideals: sets of items that are closed under predecessors, that is, what the first few stages of a
// contiguous partition can hold. A chain of ideals from the empty set to all items is a partition.
#pragma once

#include "compiler/planner/Bounds.h"

namespace pipec {

/// A growing set of ideals, each with what a search needs to price a stage between two of them.
class Ideals {
public:
  /// Starts with the empty ideal, index 0. `items` must outlive it.
  explicit Ideals(const Items &items);

  /// The ideal `parent` plus an item whose predecessors it holds; the one that exists, if so.
  uint32_t grow(uint32_t parent, uint32_t item);
  /// Adds the ideals along an order of all items that respects `after` and the segments.
  void addChain(const std::vector<uint32_t> &order);
  /// Adds every ideal there is. False: gave up at the limit of bytes or time.
  bool addAll(size_t bytes, const Deadline &deadline);

  size_t size() const { return count_.size(); }
  size_t bytes() const;
  const Items &items() const { return items_; }
  /// The ideal of all items, once a chain or all were added.
  uint32_t full() const { return full_; }

  uint32_t count(uint32_t ideal) const { return count_[ideal]; }
  bool contains(uint32_t ideal, uint32_t item) const {
    return bits_[ideal * words_ + item / 64] >> (item % 64) & 1;
  }
  bool subset(uint32_t small, uint32_t large) const {
    const uint64_t *a = &bits_[small * words_], *b = &bits_[large * words_];
    for (size_t word = firstGap_[large]; word <= lastBit_[small]; ++word)
      if (a[word] & ~b[word])
        return false;
    return true;
  }
  /// Members of a net that an ideal holds, for nets with members on both sides of it.
  struct Cut {
    uint32_t net, inside;
  };
  const Cut *cutsBegin(uint32_t ideal) const { return cuts_.data() + cutStart_[ideal]; }
  const Cut *cutsEnd(uint32_t ideal) const { return cuts_.data() + cutStart_[ideal + 1]; }
  double cutWeight(uint32_t ideal) const { return cutWeight_[ideal]; }

private:
  struct Slot {
    uint64_t hash;
    uint32_t ideal;
  };
  void rehash(size_t slots);
  void appendCuts(uint32_t parent, uint32_t item);
  void appendFrontier(uint32_t ideal);
  bool ready(uint32_t ideal, uint32_t item) const;

  const Items &items_;
  size_t words_;
  uint32_t full_ = 0;
  std::vector<uint64_t> itemHash_, bits_, hash_;
  std::vector<uint32_t> count_, parent_, added_;
  std::vector<uint32_t> firstGap_, lastBit_; // words
  std::vector<Cut> cuts_;
  std::vector<size_t> cutStart_{0};
  std::vector<double> cutWeight_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> frontier_; // items that can be added, of the ideals looked at so far
  std::vector<size_t> frontierStart_{0};
};

} // namespace pipec
