// The collectives of a simulated run: which ranks have arrived at which one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

namespace pipec {

/// The collectives of one group, in the order in which all its members run them.
class Rounds {
public:
  struct Member {
    size_t rank = 0, op = 0;
  };
  struct Round {
    std::vector<Member> here;
    int64_t lastCame = 0;
  };

  /// `rank` arrives at its next collective of the group.
  void enter(Member member, int64_t now);

  /// The oldest collective, once all `members` have arrived at it.
  std::optional<Round> complete(size_t members);

  int64_t free = 0; // when the last collective ends

private:
  std::deque<Round> underWay_; // oldest first
  size_t done_ = 0;            // number of finished collectives
  std::map<size_t, size_t> entered_;
};

} // namespace pipec
