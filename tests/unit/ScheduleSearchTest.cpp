// The search over schedules against trying everything.
#include "compiler/planner/ScheduleSearch.h"

#include "compiler/planner/SketchPlan.h"
#include "ir/schedule/Lower.h"
#include "ir/schedule/OpMemory.h"
#include "tests/support/Matchers.h"
#include "tests/support/RandomPrograms.h"

#include <algorithm>

namespace pipec {
namespace {

StagedWork chainWork(Placement placement, size_t ranks, size_t chunks, int64_t microBatches,
                     const std::vector<StageCosts> &stages, LinkCosts link = {}) {
  StagedWork work;
  work.placement = placement;
  work.chunks = chunks;
  work.plan = sketchPlan(rankOfStages(placement, ranks, chunks), Mode::Train);
  for (size_t s = 0; s + 1 < ranks * chunks; ++s)
    addChannel(work.plan, s, {s + 1}, 1000);
  work.shape.microBatches = microBatches;
  work.shape.train = true;
  work.costs.stages = stages;
  work.costs.link = link;
  return work;
}

std::vector<StageCosts> randomStages(std::mt19937 &random, size_t stages) {
  std::vector<StageCosts> result;
  for (size_t s = 0; s < stages; ++s) {
    auto time = [&] { return static_cast<int64_t>(100 + below(random, 100)); };
    const auto held = static_cast<int64_t>(5000 + below(random, 5000));
    result.push_back({time(), time(), time(), held, held / 2});
  }
  return result;
}

/// The shortest simulated step of all generators within the memory, nothing recomputed.
int64_t shortest(const StagedWork &work, const std::string &name = "") {
  int64_t best = INT64_MAX;
  for (const Generator &generator : generators()) {
    if (generator.inference || (work.chunks > 1 && generator.placement != work.placement) ||
        (!name.empty() && name != generator.name))
      continue;
    ScheduleRequest request;
    request.ranks = work.plan.ranks;
    request.chunks = work.chunks;
    request.microBatches = work.shape.microBatches;
    request.costs.stages = work.costs.stages;
    request.costs.latency = work.costs.link.latency + work.costs.link.transferNs(1000);
    if (!work.limitBytes.empty())
      request.memoryLimit = work.limitBytes[0];
    llvm::Expected<Schedule> schedule = makeSchedule(generator, request);
    if (!schedule) {
      llvm::consumeError(schedule.takeError());
      continue;
    }
    const Program program = take(lower(*schedule, work.plan, work.shape));
    bool fits = true;
    const std::vector<MemoryPeak> peaks = memoryPeaks(program, work.plan, work.shape, work.costs);
    for (size_t r = 0; r < work.limitBytes.size(); ++r)
      fits = fits && peaks[r].bytes <= work.limitBytes[r];
    if (fits)
      best = std::min(best, take(simulate(program, work.plan, work.shape, work.costs)).makespan);
  }
  return best;
}

llvm::Expected<SearchOutcome> searchIn(std::vector<StagedWork> works, SearchOptions options) {
  ScheduleSearch search(options);
  for (StagedWork &work : works)
    if (llvm::Error error = search.add(std::move(work)))
      return std::move(error);
  return search.take();
}

TEST(ScheduleSearch, findsWhatTryingEverythingFinds) {
  std::mt19937 random(5);
  size_t limited = 0;
  for (int round = 0; round < 8; ++round) {
    const size_t ranks = 2 + below(random, 3);
    const auto microBatches = static_cast<int64_t>(1 + below(random, 8));
    const LinkCosts link{static_cast<int64_t>(below(random, 40)),
                         below(random, 2) ? 50'000'000'000 : 0};
    std::vector<StagedWork> works;
    for (size_t chunks : {1, 2})
      for (Placement placement : {Placement::Loop, Placement::V})
        if (chunks == 2 || placement == Placement::Loop) {
          works.push_back(chainWork(placement, ranks, chunks, microBatches,
                                    randomStages(random, ranks * chunks), link));
          if (round % 2)
            works.back().limitBytes.assign(ranks, 30'000 + 1000 * int64_t(below(random, 30)));
        }
    int64_t expected = INT64_MAX;
    for (const StagedWork &work : works)
      expected = std::min(expected, shortest(work));
    SCOPED_TRACE(round);
    SearchOptions options;
    options.recompute = RecomputeChoice::Never;
    llvm::Expected<SearchOutcome> found = searchIn(works, options);
    // The search gives generators that choose by memory less of it where their messages need some.
    const bool hasLimit = round % 2;
    if (!found) {
      EXPECT_EQ(expected, INT64_MAX);
      EXPECT_TRUE(failedWith(std::move(found), ExitCode::NoPlan, "expected at least"));
      ++limited;
      continue;
    }
    EXPECT_LE(found->run.makespan, expected);
    EXPECT_TRUE(hasLimit || found->run.makespan == expected);
    expected = found->run.makespan;
    EXPECT_LE(found->best().mostBytes(), hasLimit ? found->best().work->limitBytes[0] : INT64_MAX);
    EXPECT_LE(found->lowerBound, expected);
    EXPECT_EQ(found->best().step, expected);
    for (const ScheduleCandidate &candidate : found->candidates)
      EXPECT_TRUE(!candidate.valid() || candidate.step.value_or(candidate.atLeast) >= expected);
  }
  EXPECT_LT(limited, 4);
}

/// The first rank holds most; only it has to recompute.
TEST(ScheduleSearch, recomputesWhereMemoryDemandsIt) {
  StagedWork work =
      chainWork(Placement::Loop, 4, 1, 8, std::vector<StageCosts>(4, {100, 100, 100, 10'000, 0}));
  work.costs.keptToRecompute.assign(4, 500);
  work.limitBytes.assign(4, 39'000);
  SearchOptions options;
  options.schedule = "1f1b";
  options.recompute = RecomputeChoice::Never;
  EXPECT_TRUE(failedWith(searchIn({work}, options), ExitCode::NoPlan,
                         "KiB) per rank (1f1b), got 39000 bytes"));
  options.recompute = RecomputeChoice::Auto;
  llvm::Expected<SearchOutcome> found = searchIn({work}, options);
  ASSERT_TRUE(succeeded(found));
  EXPECT_EQ(found->best().recompute, (std::vector<bool>{true, false, false, false}));
  EXPECT_LE(found->best().mostBytes(), 39'000);
  options.recompute = RecomputeChoice::Always;
  found = searchIn({work}, options);
  ASSERT_TRUE(succeeded(found));
  EXPECT_EQ(found->best().recompute, std::vector<bool>(4, true));
}

/// What fits the least memory that was named fits.
TEST(ScheduleSearch, leastMemoryWouldDo) {
  StagedWork work =
      chainWork(Placement::V, 3, 2, 6, std::vector<StageCosts>(6, {100, 100, 100, 10'000, 4000}));
  work.limitBytes.assign(3, 10);
  SearchOptions options;
  options.recompute = RecomputeChoice::Never;
  const ErrorText text = errorOf(searchIn({work}, options));
  EXPECT_EQ(text.code, ExitCode::NoPlan);
  int64_t least = 0;
  ASSERT_FALSE(llvm::StringRef(text.message)
                   .split("at least ")
                   .second.split(' ')
                   .first.getAsInteger(10, least))
      << text.message;
  work.limitBytes.assign(3, least);
  EXPECT_TRUE(succeeded(searchIn({work}, options)));
  work.limitBytes.assign(3, least - 1);
  EXPECT_TRUE(failedWith(searchIn({work}, options), ExitCode::NoPlan, "expected at least"));
}

TEST(ScheduleSearch, refusesWhatDoesNotHoldTogether) {
  StagedWork work =
      chainWork(Placement::Loop, 2, 1, 2, std::vector<StageCosts>(3, {1, 1, 1, 0, 0}));
  EXPECT_TRUE(
      failedWith(searchIn({work}, {}), ExitCode::Usage, "expected the costs of 2 stages, got 3"));
  work = chainWork(Placement::Loop, 2, 2, 2, std::vector<StageCosts>(4, {1, 1, 1, 0, 0}));
  work.placement = Placement::V;
  EXPECT_TRUE(failedWith(searchIn({work}, {}), ExitCode::Usage, "in their usual places"));
  work.placement = Placement::Loop;
  work.limitBytes = {1};
  EXPECT_TRUE(
      failedWith(searchIn({work}, {}), ExitCode::Usage, "expected the memory of 2 ranks, got 1"));
}

} // namespace
} // namespace pipec
