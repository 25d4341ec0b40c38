// The cuts of a list against the best of all cuts, found by trying them.
#include "ir/support/ListCut.h"

#include "passes/support/CutsByCost.h"
#include "tests/support/Matchers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
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

TEST(CutsByCost, slowestStageIsTheLeastPossible) {
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
        cutsByCost(costs, traffic, legal, stages, /*slack=*/0);
    ASSERT_TRUE(bool(found));
    ASSERT_EQ(found->size(), stages - 1);
    ASSERT_TRUE(std::is_sorted(found->begin(), found->end()));
    ASSERT_EQ(std::adjacent_find(found->begin(), found->end()), found->end());
    for (size_t boundary : *found)
      ASSERT_TRUE(std::binary_search(legal.begin(), legal.end(), boundary));
    EXPECT_EQ(slowest(costs, *found), bestByTrying(costs, legal, stages)) << "round " << round;
  }
}

TEST(CutsByCost, balancesTheRestWhenOneOperatorDecides) {
  // 12 equal operators and one that costs more than all of them.
  std::vector<int64_t> costs(12, 10);
  costs.push_back(500);
  std::vector<int64_t> traffic(costs.size() + 1, 1);
  std::vector<size_t> legal(costs.size() - 1);
  std::iota(legal.begin(), legal.end(), 1);
  llvm::Expected<std::vector<size_t>> found = cutsByCost(costs, traffic, legal, 4);
  ASSERT_TRUE(bool(found));
  EXPECT_EQ(*found, (std::vector<size_t>{4, 8, 12}));
}

/// The value of a cut, and of the best one, found by trying all.
double valueOf(const ListCut &list, const std::vector<size_t> &begins) {
  double sum = 0, largest = 0;
  for (size_t part = 0; part < list.parts; ++part) {
    const double cost = list.cost(part, part ? begins[part - 1] : 0,
                                  part + 1 < list.parts ? begins[part] : list.items);
    sum += cost;
    largest = std::max(largest, cost);
  }
  return list.least == ListCut::Least::Sum ? sum : largest;
}

double leastValue(const ListCut &list) {
  double least = std::numeric_limits<double>::infinity();
  std::vector<bool> begins(list.items - 1, false);
  std::fill(begins.end() - static_cast<std::ptrdiff_t>(list.parts - 1), begins.end(), true);
  do {
    std::vector<size_t> cut;
    for (size_t i = 0; i < begins.size(); ++i)
      if (begins[i])
        cut.push_back(i + 1);
    least = std::min(least, valueOf(list, cut));
  } while (std::next_permutation(begins.begin(), begins.end()));
  return least;
}

TEST(ListCut, isTheBestOfAllForEveryKindOfCost) {
  std::mt19937 random(11);
  for (int round = 0; round < 400; ++round) {
    const size_t items = 2 + random() % 8, parts = 1 + random() % std::min<size_t>(items, 4);
    std::vector<double> before(items + 1, 0), ends(items + 1, 0);
    for (size_t i = 0; i < items; ++i) {
      before[i + 1] = before[i] + static_cast<double>(random() % 50);
      ends[i + 1] = static_cast<double>(random() % 20);
    }
    const bool squares = round % 2 > 0;
    auto cost = [&](size_t, size_t begin, size_t end) {
      const double own = before[end] - before[begin];
      return squares ? own * own + ends[end] : own;
    };
    const ListCut list{items, parts, cost, squares ? ListCut::Least::Sum : ListCut::Least::Largest};
    const std::optional<std::vector<size_t>> found = cutList(list);
    ASSERT_TRUE(found.has_value());
    ASSERT_EQ(found->size(), parts - 1);
    EXPECT_EQ(valueOf(list, *found), leastValue(list)) << "round " << round;
  }
}

TEST(ListCut, ofEqualLastPartsTakesTheShortestOrTheLongest) {
  auto cost = [](size_t, size_t begin, size_t end) { return static_cast<double>(end - begin); };
  EXPECT_EQ(cutList({3, 2, cost}), std::vector<size_t>{2});
  auto square = [&](size_t part, size_t begin, size_t end) {
    return std::pow(cost(part, begin, end), 2);
  };
  EXPECT_EQ(cutList({3, 2, square, ListCut::Least::Sum}), std::vector<size_t>{1});
}

TEST(ListCut, knowsWhenNoCutIsAllowed) {
  auto never = [](size_t, size_t begin, size_t end) {
    return end - begin > 2 ? std::numeric_limits<double>::infinity() : 1.0;
  };
  EXPECT_FALSE(cutList({5, 2, never}).has_value());
  EXPECT_FALSE(cutList({5, 2, never, ListCut::Least::Sum}).has_value());
  EXPECT_TRUE(cutList({5, 3, never}).has_value());
  EXPECT_FALSE(cutList({2, 3, never}).has_value());
}

TEST(CutsByCost, refusesMoreStagesThanPlaces) {
  EXPECT_TRUE(failedWith(cutsByCost({1, 2, 3}, {0, 0, 0, 0}, {1}, 3), ExitCode::NoPlan,
                         "expected at most 2"));
}

} // namespace
} // namespace pipec
