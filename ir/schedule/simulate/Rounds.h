// The collectives of a simulated run: which ranks have arrived at which one.
#pragma once

#include <algorithm>
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
  void enter(Member member, int64_t now) {
    const size_t place = entered_[member.rank]++ - done_;
    if (place == underWay_.size())
      underWay_.emplace_back();
    underWay_[place].here.push_back(member);
    underWay_[place].lastCame = std::max(underWay_[place].lastCame, now);
  }

  /// The oldest collective, once all `members` have arrived at it.
  std::optional<Round> complete(size_t members) {
    if (underWay_.empty() || underWay_.front().here.size() < members)
      return std::nullopt;
    Round round = std::move(underWay_.front());
    underWay_.pop_front();
    ++done_;
    return round;
  }

  int64_t free = 0; // when the last collective ends

private:
  std::deque<Round> underWay_; // oldest first
  size_t done_ = 0;            // number of finished collectives
  std::map<size_t, size_t> entered_;
};

} // namespace pipec
