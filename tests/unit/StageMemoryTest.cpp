// Memory of stages against counting it operator by operator.
#include "compiler/cost/StageMemory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace pipec {
namespace {

struct Case {
  OperatorGraph graph;
  std::vector<WeightStorage> weights;
  std::vector<int64_t> bytes;

  StageMemory memory() const { return {graph, weights, bytes}; }
};

Case randomCase(std::mt19937 &random, uint32_t size) {
  Case c;
  auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  for (uint32_t i = 0; i < size; ++i) {
    c.graph.operators.push_back({"aten::op", ""});
    c.bytes.push_back(below(20));
    for (uint32_t maker = 0; maker < i; ++maker)
      if (below(5) == 0)
        c.graph.reads.emplace_back(maker, i);
  }
  for (uint32_t w = 0; w < size / 2; ++w) {
    WeightStorage weight;
    weight.bytes = 1 + below(30);
    for (uint32_t reads = 0; reads < 1 + below(3); ++reads)
      weight.readers.insert(below(size));
    c.weights.push_back(weight);
  }
  return c;
}

int64_t needOf(const Case &c, uint32_t begin, uint32_t end) {
  int64_t weights = 0, most = 0;
  for (const WeightStorage &weight : c.weights)
    if (std::any_of(weight.readers.begin(), weight.readers.end(),
                    [&](uint32_t reader) { return begin <= reader && reader < end; }))
      weights += weight.bytes;
  for (uint32_t now = begin; now < end; ++now) {
    int64_t alive = 0;
    for (uint32_t maker = 0; maker <= now; ++maker) {
      bool isAlive = maker == now;
      for (auto [from, to] : c.graph.reads)
        isAlive |= from == maker && now <= to && to < end;
      alive += isAlive ? c.bytes[maker] : 0;
    }
    most = std::max(most, alive);
  }
  return weights + most;
}

TEST(StageMemory, isThatOfEveryStretch) {
  std::mt19937 random(1);
  for (int round = 0; round < 30; ++round) {
    const uint32_t size = 2 + random() % 10;
    const Case c = randomCase(random, size);
    for (size_t boundary = 1; boundary < size; ++boundary) {
      const std::vector<int64_t> weights = c.memory().weightsOf({boundary}),
                                 results = c.memory().resultsOf({boundary});
      const auto cut = static_cast<uint32_t>(boundary);
      EXPECT_EQ(weights[0] + results[0], needOf(c, 0, cut));
      EXPECT_EQ(weights[1] + results[1], needOf(c, cut, size));
    }
    const int64_t limit = 20 + random() % 80;
    const std::vector<uint32_t> first = c.memory().firstBegins(limit);
    for (uint32_t end = 1; end <= size; ++end)
      for (uint32_t begin = 0; begin < end; ++begin)
        EXPECT_EQ(first[end - 1] <= begin, needOf(c, begin, end) <= limit) << begin << " " << end;
  }
}

TEST(StageMemory, theLeastLimitIsThatOfTheBestCut) {
  std::mt19937 random(2);
  for (int round = 0; round < 30; ++round) {
    const uint32_t size = 4 + random() % 8;
    const Case c = randomCase(random, size);
    std::vector<size_t> legal;
    for (size_t place = 1; place < size; ++place)
      if (random() % 4 != 0)
        legal.push_back(place);
    int64_t least = needOf(c, 0, size);
    for (size_t a : legal)
      for (size_t b : legal)
        if (a <= b) { // at most three stages
          const auto first = static_cast<uint32_t>(a), second = static_cast<uint32_t>(b);
          least = std::min(least, std::max({needOf(c, 0, first), needOf(c, first, second),
                                            needOf(c, second, size)}));
        }
    EXPECT_EQ(c.memory().least(legal, 3), least);
  }
}

} // namespace
} // namespace pipec
