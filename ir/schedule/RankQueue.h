// The ranks that a walk over programs has still to look at.
#pragma once

#include <cstddef>
#include <deque>
#include <numeric>
#include <vector>

namespace pipec {

/// First in, first out; a rank is in it at most once.
class RankQueue {
public:
  /// All ranks, in order.
  explicit RankQueue(size_t ranks) : waiting_(ranks), isIn_(ranks, true) {
    std::iota(waiting_.begin(), waiting_.end(), size_t(0));
  }

  bool empty() const { return waiting_.empty(); }

  /// Does nothing if the rank is in the queue.
  void add(size_t rank) {
    if (isIn_[rank])
      return;
    isIn_[rank] = true;
    waiting_.push_back(rank);
  }

  /// The first one, which may be added again. The queue must not be empty.
  size_t take() {
    const size_t rank = waiting_.front();
    waiting_.pop_front();
    isIn_[rank] = false;
    return rank;
  }

private:
  std::deque<size_t> waiting_;
  std::vector<bool> isIn_;
};

} // namespace pipec
