// Who may use a link when: messages and reductions in a simulated run.
#pragma once

#include "ir/schedule/Simulate.h"

namespace pipec {

/// A link serves one message after the other, in the order in which they were sent, each at its
/// whole bandwidth: as queues of network cards and of analytical network simulators do
/// (ASTRA-sim's, with congestion). Sharing the bandwidth instead would keep a link busy just as
/// long and let the first of equal messages arrive later.
///
///   sent at 0: 100 bytes   |=====a=====|            1 byte/ns, latency 5: a arrives at 105,
///   sent at 10: 50 bytes          .....|==b==|      b at 155
class Links {
public:
  explicit Links(const ProgramCosts &costs) : costs_(costs) {
    for (const LinkCosts &link : costs.links)
      media_.push_back({link, 0});
  }

  /// The medium between two ranks: a named link, or one of their own.
  size_t between(size_t from, size_t to);

  /// A message that is handed over at `now`: when it arrives.
  int64_t send(size_t medium, int64_t bytes, int64_t now);

  /// An all-reduce of `bytes` around a ring of `ranks`, not before `earliest`. In each of its
  /// 2 (n - 1) steps every member sends a part to the next one, so the slowest link sets the pace,
  /// and one that carries several of these ways takes them one after the other. It has its links to
  /// itself until their bytes are through.
  Timing::Interval reduce(const std::vector<size_t> &ranks, int64_t bytes, int64_t earliest);

private:
  struct Medium {
    LinkCosts costs;
    int64_t free = 0;
  };

  const ProgramCosts &costs_;
  std::vector<Medium> media_; // costs.links, then those of single pairs
  std::map<std::pair<size_t, size_t>, size_t> own_;
};

} // namespace pipec
