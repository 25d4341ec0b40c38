// The joint search over pipelines of a training against trying everything: all cuts, numbers of
// micro-batches, sets of stages to recompute, and ways to keep shared weights.
#include "compiler/planner/JointSearch.h"

#include "compiler/planner/TrainingCuts.h"
#include "ir/schedule/Lower.h"
#include "ir/schedule/OpMemory.h"
#include "llvm/ADT/STLExtras.h"
#include "tests/support/Matchers.h"
#include "tests/support/RandomPrograms.h"

#include <algorithm>

namespace pipec {
namespace {

/// A chain of operators, some of which read an earlier one too; a weight that the first and the
/// last share.
CostTable randomTable(std::mt19937 &random, size_t operators) {
  CostTable table;
  table.training = true;
  table.batch = 8;
  for (size_t i = 0; i < operators; ++i) {
    auto some = [&](int64_t most) {
      return static_cast<int64_t>(1 + below(random, static_cast<uint32_t>(most)));
    };
    CostRow &row = table.rows.emplace_back();
    row.op = "aten::op";
    row.forwardNs = 10'000 * some(40);
    row.inputGradNs = i ? row.forwardNs : 0;
    row.weightGradNs = row.forwardNs;
    row.outputBytes = 1000 * some(20);
    row.keptBytes = 1000 * some(60);
    row.trainedBytes = 1000 * some(30);
    row.weightBytes = row.trainedBytes + 500;
    row.withPrevious = i > 0 && below(random, 8) == 0;
    if (i > 0)
      row.reads.push_back(static_cast<uint32_t>(i - 1));
    if (i > 2 && below(random, 3) == 0)
      row.reads.insert(row.reads.begin(), below(random, static_cast<uint32_t>(i - 1)));
  }
  if (operators > 1)
    table.shared.push_back(
        {"wte", table.rows[0].weightBytes / 2, true, {0, static_cast<uint32_t>(operators - 1)}});
  return table;
}

Cluster twoSpeeds(size_t devices) {
  Cluster cluster = defaultCluster(devices);
  cluster.links = {{"*", "*", 1'000'000'000, 2'000, false}};
  cluster.devices.back().flopsPerSecond *= 2;
  cluster.devices.back().bytesPerSecond *= 2;
  return cluster;
}

JointRequest requestFor(CostTable table, size_t ranks) {
  JointRequest request;
  request.problem.table = std::move(table);
  request.problem.ranks = ranks;
  request.problem.cluster = twoSpeeds(ranks);
  request.microBatchings = {{2, 0.5}, {4, 0.25}, {8, 0.125}};
  request.chunks = {1, 2};
  return request;
}

struct Found {
  int64_t step = INT64_MAX;  // of what fits
  int64_t bytes = INT64_MAX; // of what needs least
};

/// Everything that a request leaves free, for schedules that follow a pattern.
Found everything(const JointRequest &request) {
  Found found;
  const TrainingStages stages(request.problem);
  auto consider = [&](const StagedWork &work, const Generator &generator, uint32_t again) {
    ScheduleRequest asked;
    asked.ranks = work.plan.ranks;
    asked.chunks = work.chunks;
    asked.microBatches = work.shape.microBatches;
    asked.costs.stages = work.costs.stages;
    llvm::Expected<Schedule> schedule = makeSchedule(generator, asked);
    if (!schedule)
      return llvm::consumeError(schedule.takeError());
    RunShape shape = work.shape;
    for (size_t s = 0; s < work.plan.stages.size(); ++s)
      shape.recompute.push_back(again >> s & 1);
    const Program program = take(lower(*schedule, work.plan, shape));
    int64_t most = 0;
    bool fits = true;
    const std::vector<MemoryPeak> peaks = memoryPeaks(program, work.plan, shape, work.costs);
    for (size_t r = 0; r < peaks.size(); ++r) {
      const int64_t bytes = peaks[r].bytes + work.fixedBytes[r];
      most = std::max(most, bytes);
      fits = fits && (work.limitBytes.empty() || bytes <= work.limitBytes[r]);
    }
    found.bytes = std::min(found.bytes, most);
    if (fits)
      found.step =
          std::min(found.step, take(simulate(program, work.plan, shape, work.costs)).makespan);
  };
  for (size_t chunks : request.chunks)
    for (Placement placement : {Placement::Loop, Placement::V})
      for (const MicroBatching &way : request.microBatchings)
        for (const Boundaries &cut : everyCut(stages.places(), chunks * request.problem.ranks - 1))
          for (Tie::Mode tied : {Tie::Mode::Replicate, Tie::Mode::Transmit}) {
            if (placement == Placement::V && chunks != 2)
              continue;
            const StagedWork work =
                stages.workOf({placement, chunks, cut, way.microBatches, way.share, tied});
            for (const Generator &generator : generators())
              if (!generator.inference && !generator.looksAtCosts &&
                  (generator.placement == placement || chunks == 1) &&
                  (request.schedule.empty() || generator.name == request.schedule))
                for (uint32_t again = 0; again < uint32_t(1) << (cut.size() + 1); ++again)
                  consider(work, generator, again);
          }
  return found;
}

TEST(JointSearch, findsWhatTryingEverythingFinds) {
  std::mt19937 random(3);
  size_t limited = 0, recomputed = 0, transmitted = 0;
  for (int round = 0; round < 12; ++round) {
    SCOPED_TRACE(round);
    const char *const schedules[] = {"1f1b", "zb-h1", "interleaved-1f1b", "", "gpipe", "zb-v"};
    JointRequest request = requestFor(randomTable(random, 4 + below(random, 2)), 2);
    request.schedule = schedules[round % 6];
    for (CostRow &row : request.problem.table.rows)
      row.withPrevious &= round % 3 != 2; // four stages need three places
    const Found free = everything(request);
    if (round % 2) { // somewhere between what the fastest needs and what the smallest does
      const JointOutcome whole = take(searchJointly(request));
      const int64_t most = whole.search.best().mostBytes();
      request.problem.memoryLimit = free.bytes + (most - free.bytes) * (round % 3) / 3;
      ++limited;
    }
    const Found best = everything(request);
    ASSERT_LT(best.step, INT64_MAX);
    const JointOutcome outcome = take(searchJointly(request));
    EXPECT_TRUE(outcome.everyCut);
    EXPECT_TRUE(outcome.search.complete);
    if (request.schedule.empty()) { // those that look at costs take part
      EXPECT_LE(*outcome.search.best().step, best.step);
    } else {
      EXPECT_EQ(*outcome.search.best().step, best.step);
    }
    EXPECT_LE(outcome.lowerBound, *outcome.search.best().step);
    recomputed += llvm::is_contained(outcome.search.best().recompute, true);
    transmitted += outcome.best().tied == Tie::Mode::Transmit;
    if (request.problem.memoryLimit) {
      EXPECT_LE(outcome.search.best().mostBytes(), request.problem.memoryLimit);
    }
  }
  EXPECT_GT(limited, 4u);
  EXPECT_GT(recomputed, 0u);
  EXPECT_GT(transmitted, 0u);
}

TEST(JointSearch, theLeastMemoryDoesAndNoneLess) {
  std::mt19937 random(8);
  for (const char *schedule : {"1f1b", "gpipe", ""}) {
    JointRequest request = requestFor(randomTable(random, 5), 2);
    request.schedule = schedule;
    request.problem.memoryLimit = 1000;
    const ErrorText why = describe(searchJointly(request).takeError());
    EXPECT_EQ(why.code, ExitCode::NoPlan);
    const auto at = why.message.find("at least ");
    ASSERT_NE(at, std::string::npos) << why.message;
    const int64_t least = std::stoll(why.message.substr(at + 9));
    const Found best = everything(request);
    if (*schedule) {
      EXPECT_EQ(least, best.bytes) << why.message;
    } else {
      EXPECT_LE(least, best.bytes) << why.message;
    }
    request.problem.memoryLimit = least;
    EXPECT_LE(take(searchJointly(request)).search.best().mostBytes(), least);
    request.problem.memoryLimit = least - 1;
    EXPECT_TRUE(failedWith(searchJointly(request), ExitCode::NoPlan,
                           "expected at least " + std::to_string(least) + " bytes"));
  }
}

/// Too many cuts to try them all.
TEST(JointSearch, largeModelsComeNearTheBoundInSeconds) {
  std::mt19937 random(21);
  for (size_t ranks : {2}) {
    SCOPED_TRACE(ranks);
    JointRequest request = requestFor(randomTable(random, 300), ranks);
    request.problem.cluster = defaultCluster(ranks);
    request.microBatchings = {{8, 1}};
    request.chunks = {1, 2};
    const JointOutcome outcome = take(searchJointly(request));
    EXPECT_FALSE(outcome.everyCut);
    EXPECT_TRUE(outcome.search.complete);
    EXPECT_LT(outcome.gap(), 0.15);
    EXPECT_LE(outcome.lowerBound, outcome.search.lowerBound);
    const TrainingStages stages(request.problem);
    for (size_t i = 0; i + 1 < outcome.best().boundaries.size(); ++i)
      EXPECT_LT(outcome.best().boundaries[i], outcome.best().boundaries[i + 1]);
    // With little memory, what fits fits, and what is named does.
    request.problem.memoryLimit = 1;
    const ErrorText why = describe(searchJointly(request).takeError());
    ASSERT_EQ(why.code, ExitCode::NoPlan) << why.message;
    const int64_t least = std::stoll(why.message.substr(why.message.find("at least ") + 9));
    request.problem.memoryLimit = least;
    EXPECT_LE(take(searchJointly(request)).search.best().mostBytes(), least);
  }
}

/// A limit leads to cuts of its own: with one byte less than the least of those that need none,
/// some of them fitted.
TEST(JointSearch, theLeastMemoryOfLargeModelsDoesAndNoneLess) {
  std::mt19937 random(10);
  size_t less = 0;
  for (int round = 0; round < 4; ++round) {
    SCOPED_TRACE(round);
    JointRequest request = requestFor(randomTable(random, 60), 4);
    request.problem.cluster = defaultCluster(4);
    request.seconds = 300;
    request.microBatchings = {{8, 1}};
    request.chunks = {1};
    request.schedule = round % 2 ? "1f1b" : "zb-h1";
    auto leastFor = [&](int64_t limit) {
      request.problem.memoryLimit = limit;
      const ErrorText why = describe(searchJointly(request).takeError());
      EXPECT_EQ(why.code, ExitCode::NoPlan) << why.message;
      return std::stoll(why.message.substr(why.message.find("at least ") + 9));
    };
    request.least = LeastWanted::OfLookedAt;
    const int64_t seen = leastFor(1);
    request.least = LeastWanted::OfAll;
    const int64_t least = leastFor(1);
    EXPECT_LE(least, seen);
    less += least < seen;
    request.problem.memoryLimit = least;
    EXPECT_LE(take(searchJointly(request)).search.best().mostBytes(), least);
    request.problem.memoryLimit = least - 1;
    request.least = LeastWanted::None;
    EXPECT_TRUE(failedWith(searchJointly(request), ExitCode::NoPlan, "no pipeline fits"));
  }
  EXPECT_GT(less, 0u);
}

int64_t bytesAfter(const std::string &message, const std::string &words) {
  return std::stoll(message.substr(message.find(words) + words.size()));
}

/// Devices that have more than the least memory keep it: the others are what is too small.
TEST(JointSearch, theLeastMemoryIsThatOfTheSmallerDevices) {
  std::mt19937 random(5);
  size_t less = 0;
  for (size_t operators : {8, 60}) // every cut is looked at, or some
    for (int round = 0; round < (operators > 10 ? 3 : 12); ++round) {
      SCOPED_TRACE(fmt::format("{} operators, {}", operators, round));
      JointRequest request = requestFor(randomTable(random, operators), operators > 10 ? 4 : 2);
      if (operators > 10) // an embedding and a head
        for (CostRow *row :
             {&request.problem.table.rows.front(), &request.problem.table.rows.back()})
          row->trainedBytes = row->weightBytes =
              row == &request.problem.table.rows.front() ? 300'000 : 400'000;
      request.problem.cluster = defaultCluster(2);
      request.seconds = 300;
      request.microBatchings = {{4, 1}};
      request.chunks = {1};
      request.schedule = round % 2 ? "1f1b" : "gpipe";
      auto leastWith = [&](int64_t first, int64_t second) {
        request.least = LeastWanted::OfAll;
        request.problem.cluster.devices[0].memoryBytes = first;
        request.problem.cluster.devices[1].memoryBytes = second;
        const ErrorText why = describe(searchJointly(request).takeError());
        EXPECT_EQ(why.code, ExitCode::NoPlan) << why.message;
        EXPECT_EQ(why.message.find("got 1000 bytes") != std::string::npos &&
                      why.message.find(" on the smallest") != std::string::npos,
                  first != second)
            << why.message;
        return bytesAfter(why.message, "at least ");
      };
      auto fits = [&](int64_t first, int64_t second) {
        request.least = LeastWanted::None;
        request.problem.cluster.devices[0].memoryBytes = first;
        request.problem.cluster.devices[1].memoryBytes = second;
        llvm::Expected<JointOutcome> outcome = searchJointly(request);
        const bool found = bool(outcome);
        llvm::consumeError(outcome.takeError());
        return found;
      };
      const int64_t alike = leastWith(1000, 1000), large = 50 * alike;
      const int64_t least = leastWith(1000, large);
      EXPECT_LE(least, alike);
      less += least < alike;
      EXPECT_TRUE(fits(least, large));
      EXPECT_FALSE(fits(least - 1, large));
      for (int64_t i = 1; i < 16; ++i)
        EXPECT_FALSE(fits(1000 + (least - 1000) / 16 * i, large)) << i;
    }
  EXPECT_GT(less, 0u);
}

/// A device that fewer ranks share does not need as much as those with more.
TEST(JointSearch, theLeastMemoryCountsTheRanksOfADevice) {
  std::mt19937 random(6);
  JointRequest request = requestFor(randomTable(random, 8), 3);
  request.problem.cluster = defaultCluster(2);
  request.microBatchings = {{4, 1}};
  request.chunks = {1};
  auto searchWith = [&](int64_t limit) {
    request.problem.memoryLimit = limit;
    return searchJointly(request);
  };
  const std::string why = describe(searchWith(1001).takeError()).message;
  EXPECT_EQ(bytesAfter(why, "got "), 1001);
  const int64_t least = bytesAfter(why, "at least ");
  take(searchWith(least));
  EXPECT_TRUE(
      failedWith(searchWith(least - 1), ExitCode::NoPlan, fmt::format("at least {} bytes", least)));
}

/// What is named is what the search finds with just that memory, however little was there.
TEST(JointSearch, theLeastMemoryNamesWhatFits) {
  std::mt19937 random(10);
  for (int round = 0; round < 12; ++round) {
    SCOPED_TRACE(round);
    JointRequest request = requestFor(randomTable(random, 40), 4);
    request.problem.cluster = defaultCluster(4);
    request.seconds = 300;
    request.microBatchings = {{8, 1}, {4, 1}}; // on four ranks they need the same
    request.chunks = {1};
    request.schedule = "1f1b";
    std::string first;
    int64_t least = 0;
    for (int64_t part : {0, 50, 99}) {
      request.problem.memoryLimit = std::max<int64_t>(1, least * part / 100);
      const std::string why = describe(searchJointly(request).takeError()).message;
      const std::string said = why.substr(0, why.find(", got"));
      least = bytesAfter(why, "at least ");
      if (first.empty())
        first = said;
      EXPECT_EQ(said, first) << part;
    }
    request.problem.memoryLimit = least;
    const JointOutcome found = take(searchJointly(request));
    const std::string name = fmt::format(
        "(1f1b, 4 stages, {} micro-batches{})", found.best().microBatches,
        llvm::is_contained(found.search.best().recompute, true) ? ", with recompute" : "");
    EXPECT_NE(first.find(name), std::string::npos) << first << " " << name;
  }
}

/// Bounds hold for every cut.
TEST(JointSearch, noCutBeatsTheBound) {
  std::mt19937 random(33);
  for (int round = 0; round < 20; ++round) {
    const JointRequest request = requestFor(randomTable(random, 6), 2 + below(random, 2));
    const TrainingStages stages(request.problem);
    for (size_t chunks : {1, 2}) {
      if (stages.places().size() + 1 < chunks * request.problem.ranks)
        continue;
      const TrainingShape shape{Placement::Loop, chunks, 4, 0.5};
      const int64_t bound = anyCutLowerBound(stages, shape);
      int64_t least = INT64_MAX;
      for (const Boundaries &cut : everyCut(stages.places(), chunks * request.problem.ranks - 1)) {
        JointRequest fixed = request;
        for (size_t i = 1; i < fixed.problem.table.rows.size(); ++i)
          fixed.problem.table.rows[i].withPrevious = !llvm::is_contained(cut, i);
        fixed.chunks = {chunks};
        fixed.microBatchings = {{4, 0.5}};
        least = std::min(least, *take(searchJointly(fixed)).search.best().step);
      }
      EXPECT_LE(bound, least);
    }
  }
}

/// Time may be up before anything was tried: what fits is found all the same, and what does not is
/// said with what would do.
TEST(JointSearch, answersWithoutTime) {
  std::mt19937 random(5);
  for (size_t operators : {5, 300}) {
    SCOPED_TRACE(operators);
    JointRequest request = requestFor(randomTable(random, operators), 2);
    request.seconds = 0;
    const JointOutcome outcome = take(searchJointly(request));
    EXPECT_FALSE(outcome.search.complete);
    EXPECT_GT(*outcome.search.best().step, 0);
    EXPECT_LE(outcome.lowerBound, *outcome.search.best().step);
    request.problem.memoryLimit = 1;
    EXPECT_TRUE(failedWith(searchJointly(request), ExitCode::NoPlan, "expected at least"));
  }
}

/// Numbers have no bytes; who reads them waits for them all the same.
TEST(JointSearch, waitsForValuesWithoutBytes) {
  CostTable table;
  table.training = true;
  table.batch = 1;
  for (uint32_t i = 0; i < 3; ++i) {
    CostRow &row = table.rows.emplace_back();
    row.op = "aten::op";
    row.forwardNs = 100'000;
    if (i > 0)
      row.reads = {i - 1};
  }
  JointRequest request = requestFor(table, 3);
  request.problem.cluster = defaultCluster(3);
  request.chunks = {1};
  request.microBatchings = {{1, 1}};
  const JointOutcome outcome = take(searchJointly(request));
  EXPECT_GE(*outcome.search.best().step, 300'000);
  EXPECT_LE(outcome.lowerBound, *outcome.search.best().step);
  const Plan &plan = outcome.search.best().work->plan;
  ASSERT_EQ(plan.channels.size(), 2u);
  EXPECT_FALSE(plan.channels[0].tensor.requiresGrad);
}

TEST(JointSearch, saysWhatIsMissing) {
  std::mt19937 random(2);
  JointRequest request = requestFor(randomTable(random, 2), 4);
  EXPECT_TRUE(failedWith(searchJointly(request), ExitCode::Usage,
                         "expected a model with room for at least 3 cuts"));
  request.microBatchings.clear();
  EXPECT_TRUE(failedWith(searchJointly(request), ExitCode::Usage,
                         "number of micro-batches, got 2, 4, 4, 2, 0"));
}

} // namespace
} // namespace pipec
