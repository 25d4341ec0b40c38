// Placements of an inference's stages against trying every one.
#include "compiler/planner/ForwardSearch.h"

#include "compiler/planner/SketchPlan.h"
#include "ir/schedule/ForwardOnly.h"
#include "ir/schedule/Lower.h"
#include "tests/support/Matchers.h"
#include "tests/support/RandomPrograms.h"

#include <algorithm>
#include <set>

namespace pipec {
namespace {

ForwardProblem forwardProblem(const std::vector<int64_t> &stageNs, size_t ranks,
                              int64_t microBatches) {
  ForwardProblem problem;
  problem.stageNs = stageNs;
  problem.ranks = ranks;
  problem.microBatches = microBatches;
  problem.cluster = defaultCluster(ranks);
  problem.plan = sketchPlan(std::vector<size_t>(stageNs.size(), 0), Mode::Infer);
  for (size_t s = 0; s + 1 < stageNs.size(); ++s)
    addChannel(problem.plan, s, {s + 1}, 1000);
  return problem;
}

int64_t stepOf(const ForwardProblem &problem, const std::vector<size_t> &rankOfStage) {
  Plan plan = problem.plan;
  plan.ranks = problem.ranks;
  for (size_t s = 0; s < rankOfStage.size(); ++s)
    plan.stages[s].rank = rankOfStage[s];
  const Schedule schedule =
      forwardOnly({rankOfStage.size(), problem.microBatches, rankOfStage, problem.ranks});
  RunShape shape;
  shape.microBatches = problem.microBatches;
  const Program program = take(lower(schedule, plan, shape));
  return take(simulate(program, plan, shape,
                       forwardCosts(plan, program, problem.stageNs, problem.cluster)))
      .makespan;
}

/// The shortest step of all placements, and of those with neighbours on every rank.
std::pair<int64_t, int64_t> shortestSteps(const ForwardProblem &problem) {
  int64_t any = INT64_MAX, blocks = INT64_MAX;
  const size_t stages = problem.stageNs.size();
  std::vector<size_t> ranks(stages, 0);
  for (bool more = true; more;) {
    if (std::set<size_t>(ranks.begin(), ranks.end()).size() == problem.ranks) {
      const int64_t step = stepOf(problem, ranks);
      any = std::min(any, step);
      std::vector<size_t> visited = ranks;
      visited.erase(std::unique(visited.begin(), visited.end()), visited.end());
      if (visited.size() == problem.ranks)
        blocks = std::min(blocks, step);
    }
    size_t s = 0;
    for (; s < stages && ++ranks[s] == problem.ranks; ++s)
      ranks[s] = 0;
    more = s < stages;
  }
  return {any, blocks};
}

TEST(ForwardSearch, boundsHoldForEveryPlacement) {
  std::mt19937 random(11);
  for (int round = 0; round < 20; ++round) {
    SCOPED_TRACE(round);
    const size_t ranks = 2 + below(random, 2), stages = ranks + below(random, 3);
    std::vector<int64_t> ns;
    for (size_t s = 0; s < stages; ++s)
      ns.push_back(static_cast<int64_t>(100'000 + below(random, 900'000)));
    ForwardProblem problem = forwardProblem(ns, ranks, 1 + int64_t(below(random, 6)));
    if (round % 2)
      for (ClusterDevice &device : problem.cluster.devices) {
        const auto factor = static_cast<int64_t>(1 + below(random, 3));
        device.flopsPerSecond *= factor;
        device.bytesPerSecond *= factor;
      }
    const auto [any, blocks] = shortestSteps(problem);
    const ForwardPlan plan = take(planForward(problem));
    EXPECT_EQ(stepOf(problem, plan.rankOfStage), plan.stepNs);
    EXPECT_LE(plan.lowerBoundNs, any);
    EXPECT_GE(plan.stepNs, any);
    // Of equally loaded blocks those that send less may be missed.
    EXPECT_LE(double(plan.stepNs), 1.05 * double(blocks));
  }
}

TEST(ForwardSearch, aLoopFillsFaster) {
  const ForwardPlan plan =
      take(planForward(forwardProblem(std::vector<int64_t>(8, 1'000'000), 4, 4)));
  EXPECT_EQ(plan.rankOfStage, (std::vector<size_t>{0, 1, 2, 3, 0, 1, 2, 3}));
  EXPECT_LT(plan.stepNs, 11'200'000); // neighbours side by side: 14 ms
  EXPECT_GE(plan.lowerBoundNs, 11'000'000);
}

TEST(ForwardSearch, aSlowDeviceGetsLess) {
  ForwardProblem problem = forwardProblem({1000, 1000, 2000, 4000}, 2, 8);
  problem.cluster.devices[1].flopsPerSecond *= 3;
  problem.cluster.devices[1].bytesPerSecond *= 3;
  problem.cluster.links = {{"*", "*", 0, 0, false}};
  const ForwardPlan plan = take(planForward(problem));
  EXPECT_EQ(plan.rankOfStage, (std::vector<size_t>{0, 0, 1, 1})); // 2000 and 6000 / 3
  problem = forwardProblem({4000, 2000, 1000, 1000}, 2, 8);
  problem.cluster.devices[1].flopsPerSecond *= 3;
  problem.cluster.devices[1].bytesPerSecond *= 3;
  EXPECT_EQ(take(planForward(problem)).rankOfStage, (std::vector<size_t>{1, 1, 0, 0}));
}

TEST(ForwardSearch, choosesMicroBatches) {
  const ForwardPlan plan =
      take(planForward(forwardProblem(std::vector<int64_t>(2, 10'000'000), 2, 0)));
  EXPECT_EQ(plan.microBatches, 16); // 16 of 17 are no waiting
  EXPECT_EQ(take(planForward(forwardProblem({1000}, 1, 0))).microBatches, 1);
  // Two ranks that take turns on one device: it is never idle, and more are no worth.
  ForwardProblem shared = forwardProblem(std::vector<int64_t>(2, 10'000'000), 2, 0);
  shared.cluster.devices.resize(1);
  EXPECT_EQ(take(planForward(shared)).microBatches, 1);
  EXPECT_LT(take(planForward(shared)).bubble, 0.01);
}

TEST(ForwardSearch, saysWhatMemoryWouldDo) {
  ForwardProblem problem = forwardProblem({1, 1, 1, 1}, 2, 4);
  problem.stageBytes = {10, 20, 30, 40};
  problem.memoryLimit = 50;
  EXPECT_TRUE(failedWith(planForward(problem), ExitCode::NoPlan,
                         "no placement of 4 stages on 2 ranks fits: expected at least 60 bytes per "
                         "device, got 50")); // in a loop: 10 + 30 and 20 + 40
  auto help = [&] { return describe(planForward(problem).takeError()).help; };
  EXPECT_NE(help().find("use more ranks, each on a device of its own"), std::string::npos)
      << help();
  problem.memoryLimit = 39; // more ranks do not help a stage that does not fit alone
  EXPECT_EQ(help().find("more ranks"), std::string::npos) << help();
  EXPECT_NE(help().find("the largest needs 40 bytes alone"), std::string::npos) << help();
  problem.memoryLimit = 60;
  EXPECT_EQ(take(planForward(problem)).rankOfStage, (std::vector<size_t>{0, 1, 0, 1}));
  problem.ranks = 5;
  EXPECT_TRUE(failedWith(planForward(problem), ExitCode::Usage, "got 5 ranks, 4 stages"));
}

} // namespace
} // namespace pipec
