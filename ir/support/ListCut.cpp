#include "ir/support/ListCut.h"

#include <algorithm>
#include <limits>

namespace pipec {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// best_[end] is the value of the best cut of the first `end` items into the parts so far.
class ListCutter {
public:
  explicit ListCutter(const ListCut &list) : list_(list) {}

  std::optional<std::vector<size_t>> run() {
    const size_t n = list_.items;
    if (list_.parts == 0 || list_.parts > n)
      return std::nullopt;
    best_.assign(n + 1, kInfinity);
    best_[0] = list_.least == ListCut::Least::Sum ? 0 : -kInfinity;
    for (part_ = 0; part_ < list_.parts; ++part_) {
      next_.assign(n + 1, kInfinity);
      begins_.emplace_back(n + 1, 0);
      fill(part_ + 1, n, part_, n - 1);
      best_ = next_;
    }
    if (best_[n] == kInfinity)
      return std::nullopt;
    std::vector<size_t> begins;
    for (size_t part = list_.parts, end = n; part-- > 1;)
      begins.push_back(end = begins_[part][end]);
    std::reverse(begins.begin(), begins.end());
    return begins;
  }

private:
  /// Tries the begins from `low` to `high` for a part that ends at `end`.
  void choose(size_t end, size_t low, size_t high) {
    const bool sum = list_.least == ListCut::Least::Sum;
    for (size_t begin = low; begin <= std::min(high, end - 1); ++begin) {
      const double cost = list_.cost(part_, begin, end);
      const double value = sum ? best_[begin] + cost : std::max(best_[begin], cost);
      if (value < next_[end] || (!sum && value < kInfinity && value == next_[end])) {
        next_[end] = value;
        begins_[part_][end] = begin;
      }
    }
  }

  /// Solves the middle end, then each half of the ends with its half of the begins.
  void fill(size_t first, size_t last, size_t low, size_t high) {
    if (first > last)
      return;
    const size_t middle = first + (last - first) / 2;
    choose(middle, low, high);
    const bool found = next_[middle] < kInfinity;
    const size_t begin = begins_[part_][middle];
    if (middle > first)
      fill(first, middle - 1, low, found ? begin : high);
    fill(middle + 1, last, found ? begin : low, high);
  }

  const ListCut &list_;
  size_t part_ = 0;
  std::vector<double> best_, next_;
  std::vector<std::vector<size_t>> begins_; // [part][end], of the last part
};

} // namespace

std::optional<std::vector<size_t>> cutList(const ListCut &list) { return ListCutter(list).run(); }

} // namespace pipec
