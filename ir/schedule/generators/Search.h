// The best order that policies make for given costs within a memory limit.
#pragma once

#include "ir/schedule/generators/Player.h"

namespace pipec {

class Search {
public:
  /// Keeps `request` by reference.
  Search(const ScheduleRequest &request, Placement placement)
      : request_(request), placement_(placement) {}

  /// An order made otherwise; one over the memory limit counts only for the message of take().
  llvm::Error consider(Schedule schedule) { return consider(std::move(schedule), nullptr); }
  /// Every policy that lets actions run as they come.
  llvm::Error tryFreeOrders();
  /// Every policy that keeps forwards and input gradients in the order of `schedule`, which must
  /// outlive the search.
  llvm::Error tryOrder(const Schedule &schedule);
  /// Gives single ranks of the best policy a gap percentage and forwards ahead of their own, one
  /// rank after the other.
  llvm::Error refine();

  /// Errors: NoPlan with the least memory of all that was tried.
  llvm::Expected<Schedule> take();

private:
  llvm::Error consider(Schedule schedule, const Policy *policy);
  llvm::Error tryPolicy(const Policy &policy);

  const ScheduleRequest &request_;
  Placement placement_;
  std::optional<Scored> best_;
  std::optional<Policy> policy_; // that made the best; none when it was made otherwise
  int64_t leastPeak_ = std::numeric_limits<int64_t>::max();
};

} // namespace pipec
