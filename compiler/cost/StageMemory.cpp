#include "compiler/cost/StageMemory.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <limits>

namespace pipec {

namespace {

/// A sequence of numbers: add to an interval, maximum of an interval.
class RangeMost {
public:
  explicit RangeMost(size_t size)
      : leaves_(llvm::PowerOf2Ceil(std::max<size_t>(size, 1))), most_(2 * leaves_, 0),
        added_(2 * leaves_, 0) {}

  void add(size_t begin, size_t end, int64_t value) { add(1, 0, leaves_, begin, end, value); }
  int64_t most(size_t begin, size_t end) const { return most(1, 0, leaves_, begin, end); }

private:
  void add(size_t node, size_t low, size_t high, size_t begin, size_t end, int64_t value) {
    if (end <= low || high <= begin)
      return;
    if (begin <= low && high <= end) {
      most_[node] += value;
      added_[node] += value;
      return;
    }
    const size_t middle = (low + high) / 2;
    add(2 * node, low, middle, begin, end, value);
    add(2 * node + 1, middle, high, begin, end, value);
    most_[node] = added_[node] + std::max(most_[2 * node], most_[2 * node + 1]);
  }
  int64_t most(size_t node, size_t low, size_t high, size_t begin, size_t end) const {
    if (end <= low || high <= begin)
      return 0;
    if (begin <= low && high <= end)
      return most_[node];
    const size_t middle = (low + high) / 2;
    return added_[node] + std::max(most(2 * node, low, middle, begin, end),
                                   most(2 * node + 1, middle, high, begin, end));
  }

  size_t leaves_;
  std::vector<int64_t> most_, added_; // of subtrees, without the additions of their ancestors
};

/// The interval of each operator, if intervals begin at `boundaries` and at 0.
std::vector<size_t> stretchOf(size_t size, const std::vector<size_t> &boundaries) {
  std::vector<size_t> stretch(size, 0);
  size_t now = 0;
  for (size_t i = 0; i < size; ++i) {
    while (now < boundaries.size() && boundaries[now] <= i)
      ++now;
    stretch[i] = now;
  }
  return stretch;
}

} // namespace

StageMemory::StageMemory(const OperatorGraph &graph, const std::vector<WeightStorage> &weights,
                         std::vector<int64_t> outputBytes)
    : outputBytes_(std::move(outputBytes)), reads_(outputBytes_.size()),
      weights_(outputBytes_.size()) {
  for (auto [maker, reader] : graph.reads)
    reads_[reader].push_back(maker);
  for (const WeightStorage &weight : weights) {
    for (uint32_t reader : weight.readers)
      weights_[reader].push_back(static_cast<uint32_t>(storageBytes_.size()));
    storageBytes_.push_back(weight.bytes);
  }
}

std::vector<int64_t> StageMemory::weightsOf(const std::vector<size_t> &boundaries) const {
  const std::vector<size_t> stretch = stretchOf(size(), boundaries);
  std::vector<int64_t> bytes(boundaries.size() + 1, 0);
  std::vector<size_t> last(storageBytes_.size(), std::numeric_limits<size_t>::max());
  for (size_t i = 0; i < size(); ++i)
    for (uint32_t storage : weights_[i])
      if (last[storage] != stretch[i]) {
        last[storage] = stretch[i];
        bytes[stretch[i]] += storageBytes_[storage];
      }
  return bytes;
}

std::vector<int64_t> StageMemory::resultsOf(const std::vector<size_t> &boundaries) const {
  const std::vector<size_t> stretch = stretchOf(size(), boundaries);
  std::vector<int64_t> change(size() + 1, 0);
  // Backwards, the first reader of a result that is met in a stretch is its last one there.
  std::vector<size_t> met(size(), std::numeric_limits<size_t>::max());
  auto use = [&](size_t maker, size_t reader) {
    if (met[maker] == stretch[reader])
      return;
    met[maker] = stretch[reader];
    const size_t begin = stretch[reader] ? boundaries[stretch[reader] - 1] : 0;
    change[std::max(begin, maker)] += outputBytes_[maker];
    change[reader + 1] -= outputBytes_[maker];
  };
  for (size_t i = size(); i-- > 0;) {
    use(i, i);
    for (uint32_t maker : reads_[i])
      use(maker, i);
  }
  std::vector<int64_t> most(boundaries.size() + 1, 0);
  int64_t now = 0;
  for (size_t i = 0; i < size(); ++i) {
    now += change[i];
    most[stretch[i]] = std::max(most[stretch[i]], now);
  }
  return most;
}

/// A window that grows at its end and shrinks at its beginning. The values alive at an operator do
/// not change when the window begins later.
std::vector<uint32_t> StageMemory::firstBegins(int64_t limit) const {
  RangeMost alive(size());
  std::vector<size_t> lastUse(size());
  std::vector<uint32_t> uses(storageBytes_.size(), 0), first;
  int64_t weightBytes = 0;
  size_t begin = 0;
  for (size_t i = 0; i < size(); ++i) {
    for (uint32_t storage : weights_[i])
      if (uses[storage]++ == 0)
        weightBytes += storageBytes_[storage];
    alive.add(i, i + 1, outputBytes_[i]);
    lastUse[i] = i;
    for (uint32_t maker : reads_[i]) {
      alive.add(std::max(lastUse[maker] + 1, begin), i + 1, outputBytes_[maker]);
      lastUse[maker] = i;
    }
    while (begin <= i && weightBytes + alive.most(begin, i + 1) > limit) {
      for (uint32_t storage : weights_[begin])
        if (--uses[storage] == 0)
          weightBytes -= storageBytes_[storage];
      ++begin;
    }
    first.push_back(static_cast<uint32_t>(begin));
  }
  return first;
}

/// Makes each stage as long as possible: no other way needs fewer stages.
bool StageMemory::doesFor(int64_t limit, const std::vector<size_t> &legal, size_t stages) const {
  const std::vector<uint32_t> first = firstBegins(limit);
  std::vector<size_t> ends = legal;
  ends.push_back(size());
  size_t begin = 0;
  for (size_t stage = 0; stage < stages && begin < size(); ++stage) {
    const auto end = std::partition_point(ends.begin(), ends.end(),
                                          [&](size_t at) { return first[at - 1] <= begin; });
    if (end == ends.begin() || *(end - 1) <= begin)
      return false;
    begin = *(end - 1);
  }
  return begin == size();
}

int64_t StageMemory::least(const std::vector<size_t> &legal, size_t stages) const {
  int64_t low = -1, high = size() == 0 ? 0 : weightsOf({})[0] + resultsOf({})[0];
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (doesFor(middle, legal, stages) ? high : low) = middle;
  }
  return high;
}

} // namespace pipec
