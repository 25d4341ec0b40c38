// Finds the best order that policies give for the costs within a memory limit.
#pragma once

#include "ir/schedule/generators/Player.h"

namespace pipec {

class Search {
public:
  /// Keeps `request` by reference.
  Search(const ScheduleRequest &request, Placement placement)
      : request_(request), placement_(placement) {}

  /// Adds a given order. One over the memory limit counts only for the error message of best().
  llvm::Error consider(Schedule schedule);
  /// Tries every policy that keeps forwards and input gradients in the order of `schedule`, which
  /// must outlive the search.
  llvm::Error tryOrder(const Schedule &schedule);
  /// Returns the best of these, of every policy that runs actions in order of arrival, and of the
  /// best policies refined. Errors: NoPlan with the least memory of all orders tried.
  llvm::Expected<Schedule> best();

private:
  using Value = Scored::Value;

  /// The schedule's value; nothing if it is over the memory limit.
  llvm::Expected<std::optional<Value>> take(Schedule schedule);
  /// Returns nullopt also if the ranks block each other.
  llvm::Expected<std::optional<Value>> tryPolicy(const Policy &policy);
  llvm::Error tryNew(Policy policy);
  llvm::Error tryFreeOrders();
  /// Varies the policies tried, best first: one rank after the other gets its own gap percentage
  /// and its own number of forwards ahead, as long as time is left.
  llvm::Error refine();
  bool isTimeUp() const { return request_.timeIsUp && request_.timeIsUp(); }

  const ScheduleRequest &request_;
  Placement placement_;
  std::optional<Scored> found_;
  std::vector<std::pair<Value, Policy>> attempts_;
  int64_t leastPeak_ = std::numeric_limits<int64_t>::max();
};

} // namespace pipec
