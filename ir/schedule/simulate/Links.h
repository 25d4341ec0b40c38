// The use of links by messages and reductions in a simulated run.
#pragma once

#include "ir/schedule/Simulate.h"

namespace pipec {

/// A link serves one message after the other, in the order in which they were sent, each at full
/// bandwidth. The queues of network cards and of analytical network simulators (ASTRA-sim's, with
/// congestion) do the same. Sharing the bandwidth instead would keep a link busy for the same time
/// and delay the first of equal messages.
///
///   sent at 0: 100 bytes   |=====a=====|            1 byte/ns, latency 5: a arrives at 105,
///   sent at 10: 50 bytes          .....|==b==|      b at 155
class Links {
public:
  explicit Links(const ProgramCosts &costs) : costs_(costs) {
    for (const LinkCosts &link : costs.links)
      media_.push_back({link, 0});
  }

  /// The medium between two ranks: a named link, or their own.
  size_t between(size_t from, size_t to);

  /// Sends a message at `now`; returns its time of arrival.
  int64_t send(size_t medium, int64_t bytes, int64_t now);

  /// An all-reduce of `bytes` around a ring of `ranks`, not before `earliest`. In each of its 2 (n
  /// - 1) steps every member sends a part to the next one, so the slowest link sets the pace. A
  /// link that carries several of these messages sends them one after the other. The reduction has
  /// its links exclusively until its bytes have passed.
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
