#include "ir/support/CommonSubsequence.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cstdint>

namespace pipec {

namespace {

/// The algorithm of Myers, "An O(ND) difference algorithm" (1986). A path goes from (0, 0) to
/// (|a|, |b|); a step in one direction skips an entry of one sequence, a diagonal step takes an
/// entry that both have. Round d holds how far paths with d skips get on each diagonal x - y.
class ShortestPath {
public:
  ShortestPath(llvm::ArrayRef<size_t> a, llvm::ArrayRef<size_t> b) : a_(a), b_(b) {}

  bool find(size_t mostDifferences) {
    const int64_t most = static_cast<int64_t>(std::min(a_.size() + b_.size(), mostDifferences));
    for (int64_t d = 0; d <= most; ++d) {
      std::vector<int64_t> round(2 * d + 1);
      for (int64_t k = -d; k <= d; k += 2) {
        int64_t x = begin(d, k);
        while (x < width() && x - k < height() && a_[x] == b_[x - k])
          ++x;
        round[k + d] = x;
        if (x == width() && x - k == height()) {
          differences_ = d;
          return true;
        }
      }
      furthest_.push_back(std::move(round));
    }
    return false;
  }

  /// The diagonal steps, from the last one to the first one.
  std::vector<std::pair<size_t, size_t>> pairsFromTheEnd() const {
    std::vector<std::pair<size_t, size_t>> pairs;
    int64_t x = width(), y = height();
    for (int64_t d = differences_;; --d) {
      const int64_t k = x - y, first = begin(d, k);
      for (; x > first; --x, --y)
        pairs.emplace_back(x - 1, y - 1);
      if (d == 0)
        return pairs;
      (skipsOfA(d, k) ? x : y) -= 1;
    }
  }

private:
  int64_t width() const { return static_cast<int64_t>(a_.size()); }
  int64_t height() const { return static_cast<int64_t>(b_.size()); }
  int64_t before(int64_t d, int64_t k) const { return furthest_[d - 1][k + d - 1]; }

  /// Whether the d-th skip onto diagonal k is of an entry of `a`.
  bool skipsOfA(int64_t d, int64_t k) const {
    return k == d || (k != -d && before(d, k - 1) + 1 > before(d, k + 1));
  }

  /// Where round d begins on diagonal k.
  int64_t begin(int64_t d, int64_t k) const {
    if (d == 0)
      return 0;
    return skipsOfA(d, k) ? before(d, k - 1) + 1 : before(d, k + 1);
  }

  llvm::ArrayRef<size_t> a_, b_;
  std::vector<std::vector<int64_t>> furthest_; // of each round, diagonals from -d to d
  int64_t differences_ = 0;
};

} // namespace

std::vector<std::pair<size_t, size_t>>
commonSubsequence(llvm::ArrayRef<size_t> a, llvm::ArrayRef<size_t> b, size_t mostDifferences) {
  const size_t shorter = std::min(a.size(), b.size());
  size_t prefix = 0, suffix = 0;
  while (prefix < shorter && a[prefix] == b[prefix])
    ++prefix;
  while (prefix + suffix < shorter && a[a.size() - 1 - suffix] == b[b.size() - 1 - suffix])
    ++suffix;
  std::vector<std::pair<size_t, size_t>> pairs;
  for (size_t i = 0; i < prefix; ++i)
    pairs.emplace_back(i, i);
  ShortestPath path(a.slice(prefix, a.size() - prefix - suffix),
                    b.slice(prefix, b.size() - prefix - suffix));
  if (path.find(mostDifferences)) {
    const std::vector<std::pair<size_t, size_t>> between = path.pairsFromTheEnd();
    for (const auto &[x, y] : llvm::reverse(between))
      pairs.emplace_back(prefix + x, prefix + y);
  }
  for (size_t i = suffix; i > 0; --i)
    pairs.emplace_back(a.size() - i, b.size() - i);
  return pairs;
}

} // namespace pipec
