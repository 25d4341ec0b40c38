#include "ir/schedule/simulate/Links.h"

namespace pipec {

size_t Links::between(size_t from, size_t to) {
  const auto named = costs_.linkOf.find({from, to});
  if (named != costs_.linkOf.end())
    return named->second;
  const auto [it, isNew] = own_.try_emplace({from, to}, media_.size());
  if (isNew)
    media_.push_back({costs_.link, 0});
  return it->second;
}

int64_t Links::send(size_t medium, int64_t bytes, int64_t now) {
  Medium &link = media_[medium];
  link.free = std::max(now, link.free) + link.costs.transferNs(bytes);
  return link.free + link.costs.latency;
}

Timing::Interval Links::reduce(const std::vector<size_t> &ranks, int64_t bytes, int64_t earliest) {
  const size_t n = ranks.size();
  if (n < 2)
    return {earliest, earliest};
  std::map<size_t, int64_t> ways; // of the ring, per medium
  for (size_t i = 0; i < n; ++i)
    ++ways[between(ranks[i], ranks[(i + 1) % n])];
  const auto steps = static_cast<int64_t>(2 * (n - 1));
  const int64_t part = (bytes + static_cast<int64_t>(n) - 1) / static_cast<int64_t>(n);
  int64_t start = earliest, step = 0;
  for (const auto &[medium, count] : ways) {
    const Medium &link = media_[medium];
    start = std::max(start, link.free);
    step = std::max(step, link.costs.latency + count * link.costs.transferNs(part));
  }
  for (const auto &[medium, count] : ways)
    media_[medium].free = start + steps * count * media_[medium].costs.transferNs(part);
  return {start, start + steps * step};
}

} // namespace pipec
