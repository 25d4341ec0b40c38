#include "ir/schedule/simulate/Rounds.h"

#include <algorithm>

namespace pipec {

void Rounds::enter(Member member, int64_t now) {
  const size_t place = entered_[member.rank]++ - done_;
  if (place == underWay_.size())
    underWay_.emplace_back();
  underWay_[place].here.push_back(member);
  underWay_[place].lastCame = std::max(underWay_[place].lastCame, now);
}

std::optional<Rounds::Round> Rounds::complete(size_t members) {
  if (underWay_.empty() || underWay_.front().here.size() < members)
    return std::nullopt;
  Round round = std::move(underWay_.front());
  underWay_.pop_front();
  ++done_;
  return round;
}

} // namespace pipec
