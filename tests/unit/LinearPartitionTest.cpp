// The contiguous partition against the best of all partitions, found by trying them.
#include "passes/support/LinearPartition.h"

#include "tests/support/Matchers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace pipec {
namespace {

int64_t slowest(const std::vector<int64_t> &costs, const std::vector<size_t> &boundaries) {
  int64_t worst = 0;
  size_t begin = 0;
  for (size_t k = 0; k <= boundaries.size(); ++k) {
    size_t end = k < boundaries.size() ? boundaries[k] : costs.size();
    worst =
        std::max(worst, std::accumulate(costs.begin() + begin, costs.begin() + end, int64_t{0}));
    begin = end;
  }
  return worst;
}

int64_t bestByTrying(const std::vector<int64_t> &costs, const std::vector<size_t> &legal,
                     size_t stages) {
  std::vector<bool> chosen(legal.size(), false);
  std::fill(chosen.end() - static_cast<std::ptrdiff_t>(stages - 1), chosen.end(), true);
  int64_t best = std::numeric_limits<int64_t>::max();
  do {
    std::vector<size_t> boundaries;
    for (size_t i = 0; i < legal.size(); ++i)
      if (chosen[i])
        boundaries.push_back(legal[i]);
    best = std::min(best, slowest(costs, boundaries));
  } while (std::next_permutation(chosen.begin(), chosen.end()));
  return best;
}

TEST(LinearPartition, slowestStageIsTheLeastPossible) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    size_t n = 4 + random() % 9;
    std::vector<int64_t> costs(n), traffic(n + 1);
    for (int64_t &cost : costs)
      cost = random() % 3 == 0 ? 0 : random() % 1000;
    for (int64_t &bytes : traffic)
      bytes = random() % 100;
    std::vector<size_t> legal;
    for (size_t i = 1; i < n; ++i)
      if (random() % 4 != 0)
        legal.push_back(i);
    if (legal.empty())
      continue;
    size_t stages = 1 + random() % std::min<size_t>(legal.size() + 1, 5);
    llvm::Expected<std::vector<size_t>> found =
        partitionLinear(costs, traffic, legal, stages, /*slack=*/0);
    ASSERT_TRUE(bool(found));
    ASSERT_EQ(found->size(), stages - 1);
    ASSERT_TRUE(std::is_sorted(found->begin(), found->end()));
    ASSERT_EQ(std::adjacent_find(found->begin(), found->end()), found->end());
    for (size_t boundary : *found)
      ASSERT_TRUE(std::binary_search(legal.begin(), legal.end(), boundary));
    EXPECT_EQ(slowest(costs, *found), bestByTrying(costs, legal, stages)) << "round " << round;
  }
}

TEST(LinearPartition, balancesTheRestWhenOneOperatorDecides) {
  // 12 equal operators and one that costs more than all of them.
  std::vector<int64_t> costs(12, 10);
  costs.push_back(500);
  std::vector<int64_t> traffic(costs.size() + 1, 1);
  std::vector<size_t> legal(costs.size() - 1);
  std::iota(legal.begin(), legal.end(), 1);
  llvm::Expected<std::vector<size_t>> found = partitionLinear(costs, traffic, legal, 4);
  ASSERT_TRUE(bool(found));
  EXPECT_EQ(*found, (std::vector<size_t>{4, 8, 12}));
}

TEST(LinearPartition, refusesMoreStagesThanPlaces) {
  EXPECT_TRUE(failedWith(partitionLinear({1, 2, 3}, {0, 0, 0, 0}, {1}, 3), ExitCode::NoPlan,
                         "expected at most 2"));
}

} // namespace
} // namespace pipec
