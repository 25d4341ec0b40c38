// Ideals: sets of items that are closed under predecessors. An ideal is a possible content of the
// first few stages of a contiguous partition. A chain of ideals from the empty set to all items is
// a partition.
#pragma once

#include "compiler/planner/Bounds.h"

namespace pipec {

/// A growing set of ideals, each with the data for the price of a stage between two of them.
class Ideals {
public:
  /// Starts with the empty ideal, index 0. `items` must outlive it.
  explicit Ideals(const Items &items);

  /// The ideal `parent` plus an item whose predecessors it holds. An existing ideal is returned
  /// again.
  uint32_t grow(uint32_t parent, uint32_t item);
  /// Adds the ideals along an order of all items that respects `after`.
  void addChain(const std::vector<uint32_t> &order);
  /// Adds all ideals. Returns false if it gave up at the limit of bytes or time.
  bool addAll(size_t bytes, const Deadline &deadline);

  size_t size() const { return count_.size(); }
  size_t bytes() const;
  const Items &items() const { return items_; }
  /// The ideal of all items; valid once a chain or all ideals were added.
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
  /// The members of a net that an ideal holds, for nets with members inside and outside.
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
  std::vector<uint32_t> frontier_; // items that can be added, for the ideals visited so far
  std::vector<size_t> frontierStart_{0};
};

} // namespace pipec
