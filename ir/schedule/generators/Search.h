// The best order that policies make for given costs within a memory limit.
#pragma once

#include "ir/schedule/generators/Player.h"

namespace pipec {

class Search {
public:
  /// Keeps `request` by reference.
  Search(const ScheduleRequest &request, Placement placement)
      : request_(request), placement_(placement) {}

  /// An order made otherwise; one over the memory limit counts only for the message of best().
  llvm::Error consider(Schedule schedule);
  /// Every policy that keeps forwards and input gradients in the order of `schedule`, which must
  /// outlive the search.
  llvm::Error tryOrder(const Schedule &schedule);
  /// The best of these, of every policy that lets actions run as they come, and of the best
  /// policies refined. Errors: NoPlan with the least memory of all that was tried.
  llvm::Expected<Schedule> best();

private:
  using Value = Scored::Value;

  /// The schedule's value; nothing for one over the memory limit.
  llvm::Expected<std::optional<Value>> take(Schedule schedule);
  /// Nothing, too, when the ranks block each other.
  llvm::Expected<std::optional<Value>> tryPolicy(const Policy &policy);
  llvm::Error tryNew(Policy policy);
  llvm::Error tryFreeOrders();
  /// Gives single ranks of the policies tried, from the best, a gap percentage and forwards ahead
  /// of their own, one rank after the other, as long as time is left.
  llvm::Error refine();
  bool isTimeUp() const { return request_.timeIsUp && request_.timeIsUp(); }

  const ScheduleRequest &request_;
  Placement placement_;
  std::optional<Scored> found_;
  std::vector<std::pair<Value, Policy>> tried_;
  int64_t leastPeak_ = std::numeric_limits<int64_t>::max();
};

} // namespace pipec
