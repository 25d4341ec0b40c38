// Stages with data and tensor parallel copies: against trying everything on small problems, and the
// published instance.
#include "compiler/planner/hybrid/Hybrid.h"

#include "compiler/planner/hybrid/HybridScore.h"
#include "compiler/planner/hybrid/VariantChoice.h"
#include "tests/support/Matchers.h"
#include "tests/support/piper/ReadPiper.h"

#include <algorithm>
#include <random>

namespace pipec {
namespace {

size_t drawn(std::mt19937 &random, size_t n) {
  return std::uniform_int_distribution<size_t>(0, n - 1)(random);
}

TEST(VariantChoice, isExact) {
  std::mt19937 random(1);
  size_t yes = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::vector<VariantCost>> items(1 + drawn(random, 6));
    const bool equal = drawn(random, 3) == 0;
    for (std::vector<VariantCost> &item : items) {
      if (equal && &item != &items[0]) {
        item = items[0];
        continue;
      }
      for (size_t v = 1 + drawn(random, 3); v > 0; --v)
        item.push_back({double(drawn(random, 20)), double(drawn(random, 20))});
    }
    const double time = double(drawn(random, 15 * items.size())),
                 memory = double(drawn(random, 15 * items.size()));
    bool possible = false;
    std::vector<uint32_t> choice(items.size(), 0);
    auto sums = [&](const std::vector<uint32_t> &of) {
      VariantCost sum;
      for (size_t i = 0; i < items.size(); ++i) {
        sum.time += items[i][of[i]].time;
        sum.memory += items[i][of[i]].memory;
      }
      return sum;
    };
    for (bool more = true; more && !possible;) {
      const VariantCost sum = sums(choice);
      possible = sum.time <= time && sum.memory <= memory;
      size_t i = 0;
      for (; i < items.size() && ++choice[i] == items[i].size(); ++i)
        choice[i] = 0;
      more = i < items.size();
    }
    VariantTable table;
    for (const std::vector<VariantCost> &item : items) {
      table.costs.insert(table.costs.end(), item.begin(), item.end());
      table.endItem();
    }
    const ChoiceAnswer answer = chooseVariants(table, time, memory, choice);
    const ChoiceBounds bounds = boundChoice(table, memory);
    EXPECT_TRUE(possible ? bounds.atLeast <= time + 1e-9 : bounds.atMost > time);
    ASSERT_EQ(answer, possible ? ChoiceAnswer::Yes : ChoiceAnswer::No) << round;
    if (!possible)
      continue;
    ++yes;
    EXPECT_LE(sums(choice).time, time);
    EXPECT_LE(sums(choice).memory, memory);
  }
  EXPECT_GT(yes, 400);
}

HybridProblem randomHybrid(std::mt19937 &random) {
  HybridProblem problem;
  const auto n = static_cast<uint32_t>(2 + drawn(random, 3));
  for (uint32_t node = 0; node < n; ++node) {
    HybridNode &made = problem.nodes.emplace_back();
    made.id = node;
    const double time = 1 + double(drawn(random, 20)), memory = double(drawn(random, 20));
    for (uint32_t degree : {1u, 2u}) {
      const double share = 1.0 / degree;
      made.variants[degree] = {
          {"vanilla", time * (0.1 + share), 10, memory * share, 1, {}, {}},
          {"recompute", time * (0.4 + share), 10, memory * share / 4, 2, {}, {}}};
      if (degree == 2 && node > 0)
        for (HybridVariant &variant : made.variants[degree])
          variant.syncForward[node - 1] = double(drawn(random, 5));
    }
    for (uint32_t from = 0; from < node; ++from)
      if (drawn(random, 2))
        problem.edges.push_back({from, node, double(drawn(random, 10))});
  }
  problem.microBatches = 6;
  problem.devices = static_cast<int64_t>(1 + drawn(random, 4));
  problem.bandwidth = 4;
  problem.memory = 10 + double(drawn(random, 60));
  return problem;
}

/// Every way to lay the nodes into stages with every degree and variant.
class EveryPlan {
public:
  explicit EveryPlan(const HybridProblem &problem) : problem_(problem) {}

  double best() {
    left_ = (uint32_t(1) << problem_.nodes.size()) - 1;
    extend();
    return best_;
  }

private:
  void extend() {
    if (left_ == 0) {
      llvm::Expected<HybridScore> score = scoreHybrid(problem_, stages_);
      if (score)
        best_ = std::min(best_, score->value);
      else
        llvm::consumeError(score.takeError());
      return;
    }
    const uint32_t left = left_;
    for (uint32_t set = left; set > 0; set = (set - 1) & left)
      for (int64_t copies : {1, 2, 3})
        for (uint32_t degree : {1u, 2u}) {
          if (used_ + copies * degree > problem_.devices)
            continue;
          HybridStage stage;
          stage.dataDegree = copies;
          stage.tensorDegree = degree;
          for (uint32_t node = 0; node < problem_.nodes.size(); ++node)
            if (set >> node & 1)
              stage.nodes.push_back(node);
          for (uint32_t choice = 0; choice < 1u << stage.nodes.size(); ++choice) {
            stage.variant.clear();
            for (size_t i = 0; i < stage.nodes.size(); ++i)
              stage.variant.push_back(choice >> i & 1);
            stages_.push_back(stage);
            left_ = left & ~set;
            used_ += copies * degree;
            extend();
            used_ -= copies * degree;
            stages_.pop_back();
          }
        }
    left_ = left;
  }

  const HybridProblem &problem_;
  std::vector<HybridStage> stages_;
  uint32_t left_ = 0;
  int64_t used_ = 0;
  double best_ = kUnlimited;
};

TEST(Hybrid, findsWhatTryingEverythingFinds) {
  std::mt19937 random(7);
  size_t impossible = 0;
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE(round);
    HybridProblem problem = randomHybrid(random);
    const double best = EveryPlan(problem).best();
    llvm::Expected<HybridPlan> plan = planHybrid(problem);
    if (best < kUnlimited) {
      ASSERT_TRUE(succeeded(plan));
      EXPECT_NEAR(plan->score.value, best, 1e-8 * best);
      EXPECT_NEAR(take(scoreHybrid(problem, plan->stages)).value, plan->score.value, 1e-12);
      EXPECT_TRUE(plan->proved);
      EXPECT_LE(plan->lowerBound, best * (1 + 1e-12));
      continue;
    }
    ++impossible;
    const ErrorText text = errorOf(std::move(plan));
    EXPECT_EQ(text.code, ExitCode::NoPlan);
    ASSERT_FALSE(llvm::StringRef(text.message)
                     .split("at least ")
                     .second.split(' ')
                     .first.getAsDouble(problem.memory));
    EXPECT_LT(EveryPlan(problem).best(), kUnlimited); // rounded up to a whole byte
    problem.memory -= 2;
    EXPECT_EQ(EveryPlan(problem).best(), kUnlimited);
  }
  EXPECT_GT(impossible, 1);
}

TEST(Hybrid, reachesThePublishedValues) {
  const char *source = std::getenv("PIPEC_SOURCE");
  ASSERT_TRUE(source) << "PIPEC_SOURCE is not set";
  HybridProblem problem =
      take(readPiper(std::string(source) + "/tests/support/piper/bert32a100.json"));
  struct Case {
    int64_t devices;
    double gib, value; // 0: nothing fits
  };
  for (const Case &one :
       {Case{8, 1, 0}, Case{8, 8, 0.16585575}, Case{8, 80, 0.1220072693}, Case{32, 2, 0.0665495}}) {
    SCOPED_TRACE(fmt::format("{} devices of {} GiB", one.devices, one.gib));
    problem.devices = one.devices;
    problem.memory = one.gib * (1 << 30);
    llvm::Expected<HybridPlan> plan = planHybrid(problem);
    if (one.value == 0) {
      EXPECT_TRUE(failedWith(std::move(plan), ExitCode::NoPlan, "memory: expected at least"));
      continue;
    }
    ASSERT_TRUE(succeeded(plan));
    EXPECT_LE(take(scoreHybrid(problem, plan->stages)).value, one.value * (1 + 1e-9));
    EXPECT_TRUE(plan->proved);
  }
}

TEST(Hybrid, scoreNamesTheBrokenRule) {
  HybridProblem problem;
  problem.nodes.resize(2);
  for (HybridNode &node : problem.nodes)
    node.variants[1] = {{"vanilla", 1, 0, 10, 0, {}, {}}};
  problem.nodes[1].id = 1;
  problem.edges = {{0, 1, 4}};
  problem.microBatches = 4;
  problem.devices = 3;
  auto expectBroken = [&](std::vector<HybridStage> stages, const char *text) {
    EXPECT_TRUE(failedWith(scoreHybrid(problem, stages), ExitCode::BadArtifact, text));
  };
  expectBroken({{{0}, {0}, 1, 1}}, "node 1 is in no stage");
  expectBroken({{{0, 1}, {0, 0}, 1, 1}, {{1}, {0}, 1, 1}}, "node 1 is in two stages");
  expectBroken({{{0, 1}, {0, 0}, 3, 1}}, "3 copies do not divide 4 micro-batches");
  expectBroken({{{0, 1}, {0, 0}, 4, 1}}, "4 devices: there are 3");
  expectBroken({{{1}, {0}, 1, 1}, {{0}, {0}, 1, 1}}, "goes back from stage 1 to stage 0");
  expectBroken({{{0}, {0}, 4, 1}, {{1}, {0}, 1, 1}}, "5 copies of stages: there are 4");
  const HybridScore score = take(scoreHybrid(problem, {{{0}, {0}, 2, 1}, {{1}, {0}, 1, 1}}));
  EXPECT_DOUBLE_EQ(score.value, 1 + 8); // the second stage: twice four bytes
  EXPECT_DOUBLE_EQ(score.memory, 20);   // the first holds two
  problem.memory = 15;
  EXPECT_TRUE(failedWith(scoreHybrid(problem, {{{0}, {0}, 2, 1}, {{1}, {0}, 1, 1}}),
                         ExitCode::NoPlan, "a device needs 20 bytes, it has 15"));
}

} // namespace
} // namespace pipec
