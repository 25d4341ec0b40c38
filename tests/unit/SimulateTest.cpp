// The simulator of programs: by hand on small cases, against the simulator of tables where both
// apply, and against its own certificates.
#include "ir/schedule/ActionTiming.h"
#include "ir/schedule/ClusterCosts.h"
#include "ir/schedule/Generators.h"
#include "ir/schedule/Lower.h"
#include "ir/schedule/OpMemory.h"
#include "ir/schedule/ProgramCosts.h"
#include "tests/support/Matchers.h"
#include "tests/support/RandomPrograms.h"

namespace pipec {
namespace {

RunShape shapeOf(int64_t microBatches, bool train = true) {
  RunShape shape;
  shape.microBatches = microBatches;
  shape.train = train;
  return shape;
}

Program programOf(const char *csv, const Plan &plan, const RunShape &shape, size_t lookAhead = 2) {
  return take(lower(llvm::cantFail(scheduleFromCsv(csv)), plan, shape, lookAhead));
}

ProgramCosts costsOf(std::vector<StageCosts> stages, LinkCosts link = {}) {
  ProgramCosts costs;
  costs.stages = std::move(stages);
  costs.link = link;
  return costs;
}

/// A weight with a gradient of so many bytes.
void addWeight(Plan &plan, size_t stage, int64_t bytes) {
  StageAttribute &weight = plan.stages[stage].attributes.emplace_back();
  weight.name = fmt::format("w{}", stage);
  weight.requiresGrad = true;
  weight.bytes = bytes;
}

/// Where both apply: compute tables on a chain, lanes wide enough, nothing after the backward.
TEST(Simulate, agreesWithTables) {
  std::mt19937 random(3);
  size_t compared = 0;
  for (const Generator &generator : generators())
    for (size_t ranks : {1, 2, 4})
      for (size_t chunks : {1, 2, 3})
        for (int64_t microBatches : {1, 4, 9}) {
          ScheduleRequest request;
          request.ranks = ranks;
          request.chunks = chunks;
          request.microBatches = microBatches;
          request.costs.latency = static_cast<int64_t>(below(random, 50));
          for (size_t s = 0; s < ranks * chunks; ++s) {
            auto time = [&] { return static_cast<int64_t>(1 + below(random, 100)); };
            request.costs.stages.push_back({time(), time(), time(), 100, time() % 100});
          }
          llvm::Expected<Schedule> schedule = makeSchedule(generator, request);
          if (!schedule) { // not a shape of this generator
            llvm::consumeError(schedule.takeError());
            continue;
          }
          SCOPED_TRACE(
              fmt::format("{} p={} v={} m={}", generator.name.str(), ranks, chunks, microBatches));
          const Timing table = take(timeSchedule(*schedule, request.costs));
          const Plan plan = chainPlan(rankOfStages(generator.placement, ranks, chunks));
          RunShape shape = shapeOf(microBatches, generator.name != "forward-only");
          shape.optimizer = false;
          const Program program = take(lower(*schedule, plan, shape, 64));
          const SimulatedRun run = take(simulate(
              program, plan, shape, costsOf(request.costs.stages, {request.costs.latency, 0})));
          EXPECT_EQ(run.makespan, table.makespan);
          EXPECT_EQ(run.longestSpan, table.longestSpan);
          EXPECT_EQ(run.busy, table.busy);
          EXPECT_LE(run.lowerBound, run.makespan);
          if (shape.train) {
            EXPECT_EQ(run.peakBytes, table.peakBytes);
          }
          const Timing actions = actionTiming(*schedule, program, run);
          for (size_t r = 0; r < ranks; ++r)
            for (size_t i = 0; i < table.ranks[r].size(); ++i) {
              EXPECT_EQ(actions.ranks[r][i].start, table.ranks[r][i].start);
              EXPECT_EQ(actions.ranks[r][i].end, table.ranks[r][i].end);
            }
          ++compared;
        }
  EXPECT_GT(compared, 100u);
}

/// With lanes as lower() makes them by itself no published schedule loses time to a full one.
TEST(Simulate, lanesHoldNoScheduleBack) {
  for (const Generator &generator : generators())
    for (int64_t latency : {0, 100}) {
      ScheduleRequest request;
      request.ranks = 8;
      request.chunks = generator.leastChunks;
      request.microBatches = 32;
      request.costs = equalCosts({1000, 1000, 1000, 240, 0}, latency, 8, request.chunks);
      const Schedule schedule = take(makeSchedule(generator, request));
      const Plan plan = chainPlan(rankOfStages(generator.placement, 8, request.chunks));
      const RunShape shape = shapeOf(32, generator.name != "forward-only");
      const SimulatedRun run = take(simulate(take(lower(schedule, plan, shape)), plan, shape,
                                             costsOf(request.costs.stages, {latency, 0}), false));
      EXPECT_EQ(run.makespan, take(timeSchedule(schedule, request.costs)).makespan)
          << generator.name.str() << " " << latency;
    }
}

/// 10 ns of work; 100 bytes at a byte per nanosecond; 5 ns of latency.
TEST(Simulate, linksTakeTheirTime) {
  const Plan plan = chainPlan({0, 1});
  const RunShape shape = shapeOf(2, false);
  ProgramCosts costs = costsOf({{10}, {10}}, {5, 1000000000});
  costs.channelBytes = {100};
  const SimulatedRun run =
      take(simulate(programOf("0F0,0F1\n1F0,1F1\n", plan, shape), plan, shape, costs));
  // F ends at 10 and 20; the link is free at 10 and 110; values arrive at 115 and 215.
  EXPECT_EQ(run.makespan, 225);
  EXPECT_EQ(run.lowerBound, 125 + 10);
}

/// Two ranks are sent a value at the same time: over one link the second waits.
TEST(Simulate, sharedLinksAreWaitedFor) {
  Plan plan = emptyPlan({0, 1, 2});
  connect(plan, 0, {1, 2});
  const RunShape shape = shapeOf(1, false);
  const Program program = programOf("0F0\n1F0\n2F0\n", plan, shape);
  ProgramCosts costs = costsOf({{10}, {10}, {10}}, {5, 1000000000});
  costs.channelBytes = {100};
  EXPECT_EQ(take(simulate(program, plan, shape, costs)).makespan, 125);
  costs.links = {costs.link};
  costs.linkOf = {{{0, 1}, 0}, {{0, 2}, 0}};
  EXPECT_EQ(take(simulate(program, plan, shape, costs)).makespan, 225);
  EXPECT_EQ(runLowerBound(plan, shape, costs), 205);
}

/// A link that two ways share: the first message has all of it, the next one the rest.
///   a: 100 bytes sent at 10 -> 110, arrives 115.  b: 50 bytes sent at 30 -> 160, arrives 165
TEST(Simulate, linksServeInTheOrderOfSending) {
  Plan plan = emptyPlan({0, 1, 2, 3});
  connect(plan, 0, {2});
  connect(plan, 1, {3});
  const RunShape shape = shapeOf(1, false);
  const Program program = programOf("0F0\n1F0\n2F0\n3F0\n", plan, shape);
  ProgramCosts costs = costsOf({{10}, {30}, {1}, {1}});
  costs.channelBytes = {100, 50};
  costs.links = {{5, 1000000000}};
  costs.linkOf = {{{0, 2}, 0}, {{1, 3}, 0}};
  const SimulatedRun run = take(simulate(program, plan, shape, costs));
  EXPECT_EQ(run.ranks[2].back().start, 115);
  EXPECT_EQ(run.ranks[3].back().start, 165);
  EXPECT_EQ(run.lowerBound, 155); // 150 bytes and the latency
  costs.linkOf = {{{0, 2}, 0}};
  costs.link = costs.links[0]; // a link of its own
  EXPECT_EQ(take(simulate(program, plan, shape, costs)).ranks[3].back().start, 85);
}

/// A stage may run some backwards whole and split others, as those of dualpipev do.
TEST(Simulate, wholeBackwardsHaveATimeOfTheirOwn) {
  const Plan plan = chainPlan({0});
  const RunShape shape = shapeOf(2);
  ProgramCosts costs = costsOf({{10, 7, 4}});
  const Program program = programOf("0F0,0B0,0F1,0I1,0W1\n", plan, shape);
  EXPECT_EQ(take(simulate(program, plan, shape, costs)).makespan, 10 + 11 + 10 + 7 + 4);
  costs.wholeBackward = {9};
  const SimulatedRun run = take(simulate(program, plan, shape, costs));
  EXPECT_EQ(run.makespan, 10 + 9 + 10 + 7 + 4);
  EXPECT_EQ(run.lowerBound, 2 * (10 + 9)); // as if all were whole
  costs.wholeBackward = {13};
  EXPECT_EQ(take(simulate(program, plan, shape, costs)).makespan, 10 + 13 + 10 + 7 + 4);
  EXPECT_EQ(take(simulate(program, plan, shape, costs)).lowerBound, 2 * (10 + 7 + 4));
  costs.wholeBackward = {9, 9};
  EXPECT_TRUE(failedWith(simulate(program, plan, shape, costs), ExitCode::Usage,
                         "costs: wholeBackward: expected 1 as the plan has, got 2"));
}

/// Two replicas on one link: values of 40 bytes for stage 1 take 40 ns each, one after the other,
/// and the sum of stage 1's 100 bytes of gradients waits for the values' gradients to be through:
/// its two steps of 50 bytes go both ways around over the same link, 100 ns each.
TEST(Simulate, reductionsShareLinksWithMessages) {
  Plan plan = chainPlan({0, 1});
  addWeight(plan, 1, 100);
  RunShape shape = shapeOf(1);
  shape.replicas = 2;
  ProgramCosts costs = costsOf({{10, 0, 0}, {10, 0, 0}});
  costs.channelBytes = {40};
  costs.link = {0, 1000000000};
  const Program program = programOf("0F0,0B0\n1F0,1B0\n", plan, shape);
  // F ends at 10, arrives at 50, the backward's gradient leaves at 60; the sum runs beside it.
  EXPECT_EQ(take(simulate(program, plan, shape, costs)).makespan, 60 + 2 * 50);
  costs.links = {costs.link};
  for (const Lane &lane : program.lanes)
    costs.linkOf[{lane.from, lane.to}] = 0;
  costs.linkOf[{1, 3}] = costs.linkOf[{3, 1}] = 0;
  // Values until 50 and 90, gradients from 60 (the link is free at 90) until 130 and, of the other
  // replica, from 100 until 170; then the sum.
  EXPECT_EQ(take(simulate(program, plan, shape, costs)).makespan, 170 + 2 * 100);
}

/// The slowest link of a ring sets its pace.
TEST(Simulate, ringsGoAtThePaceOfTheirSlowestLink) {
  Plan plan = chainPlan({0});
  addWeight(plan, 0, 300);
  RunShape shape = shapeOf(1);
  shape.replicas = 3;
  ProgramCosts costs = costsOf({{10, 0, 0}}, {1, 1000000000});
  const Program program = programOf("0F0,0B0\n", plan, shape);
  EXPECT_EQ(take(simulate(program, plan, shape, costs)).makespan, 10 + 4 * (1 + 100));
  costs.links = {{7, 500000000}};
  costs.linkOf[{2, 0}] = 0;
  EXPECT_EQ(take(simulate(program, plan, shape, costs)).makespan, 10 + 4 * (7 + 200));
}

Cluster clusterOf(std::vector<const char *> devices, std::vector<ClusterLink> links) {
  Cluster cluster;
  for (const char *name : devices)
    cluster.devices.emplace_back().name = name;
  cluster.links = std::move(links);
  return cluster;
}

/// Two hosts: links of their own inside each, one shared wire between them. Both values cross it.
TEST(Simulate, clustersShareWhatTheySaySo) {
  Plan plan = emptyPlan({0, 1, 2, 3});
  connect(plan, 0, {2});
  connect(plan, 1, {3});
  const RunShape shape = shapeOf(1, false);
  const Program program = programOf("0F0\n1F0\n2F0\n3F0\n", plan, shape);
  ProgramCosts costs = costsOf({{10}, {10}, {10}, {10}});
  costs.channelBytes = {100, 100};
  Cluster cluster = clusterOf({"a0", "a1", "b0", "b1"}, {{"a0", "a1", 2000000000, 1, false},
                                                         {"b0", "b1", 2000000000, 1, false},
                                                         {"*", "*", 1000000000, 5, true}});
  placeOn(cluster, program, costs);
  EXPECT_EQ(costs.links.size(), 1u);
  EXPECT_EQ(costs.linkOf.at({0, 2}), costs.linkOf.at({1, 3}));
  EXPECT_TRUE(costs.deviceOfRank.empty());
  EXPECT_EQ(take(simulate(program, plan, shape, costs)).makespan, 10 + 100 + 100 + 5 + 10);
  cluster.links[2].shared = false;
  placeOn(cluster, program, costs);
  EXPECT_EQ(costs.links.size(), 2u);
  EXPECT_EQ(take(simulate(program, plan, shape, costs)).makespan, 10 + 100 + 5 + 10);
}

/// Four ranks on two devices: 0 and 2 take turns, and hand values over without a link.
TEST(Simulate, ranksBeyondTheDevicesShareThem) {
  Plan plan = emptyPlan({0, 1, 2, 3});
  connect(plan, 0, {2});
  connect(plan, 0, {1});
  const RunShape shape = shapeOf(1, false);
  const Program program = programOf("0F0\n1F0\n2F0\n3F0\n", plan, shape);
  ProgramCosts costs = costsOf({{10}, {20}, {30}, {40}});
  costs.channelBytes = {100, 100};
  placeOn(clusterOf({"x", "y"}, {{"x", "y", 1000000000, 5, false}}), program, costs);
  EXPECT_EQ(costs.deviceOfRank, (std::vector<size_t>{0, 1, 0, 1}));
  const SimulatedRun run = take(simulate(program, plan, shape, costs));
  EXPECT_EQ(run.ranks[2].back().start, 10);  // at once
  EXPECT_EQ(run.ranks[1].back().start, 115); // 100 bytes and the latency
  EXPECT_EQ(run.ranks[3].back().start, 0);   // before rank 1 on their device
  EXPECT_EQ(run.makespan, 135);
}

/// A lane that holds one message: the third value waits until the first is taken, and stage 0 with
/// it. Both ends of the lane hold bytes for it.
TEST(Simulate, fullLanesAreWaitedFor) {
  const Plan plan = chainPlan({0, 1});
  const RunShape shape = shapeOf(4, false);
  const char *csv = "0F0,0F1,0F2,0F3\n1F0,1F1,1F2,1F3\n";
  ProgramCosts costs = costsOf({{10}, {100}});
  costs.channelBytes = {7};
  const Program narrow = programOf(csv, plan, shape, 1), wide = programOf(csv, plan, shape, 4);
  const SimulatedRun slow = take(simulate(narrow, plan, shape, costs));
  const SimulatedRun fast = take(simulate(wide, plan, shape, costs));
  EXPECT_EQ(fast.makespan, slow.makespan);
  EXPECT_EQ(fast.ranks[0].back().start, 40);
  EXPECT_EQ(slow.ranks[0].back().start, 210); // when the third is taken
  EXPECT_EQ(fast.peakBytes, (std::vector<int64_t>{21, 28}));
  EXPECT_EQ(slow.peakBytes, (std::vector<int64_t>{7, 14}));
}

/// What a stage keeps anyway needs nothing more while it is sent, and inside one process a buffer
/// comes with its value.
TEST(Simulate, messagesWithoutMemoryOfTheirOwn) {
  const Plan plan = chainPlan({0, 1});
  const RunShape shape = shapeOf(4, false);
  const Program program = programOf("0F0,0F1,0F2,0F3\n1F0,1F1,1F2,1F3\n", plan, shape, 4);
  ProgramCosts costs = costsOf({{10}, {100}});
  costs.channelBytes = {7};
  costs.sentBytes = {0};
  costs.takesAllocate = true;
  const std::vector<int64_t> expected = {0, 7};
  EXPECT_EQ(take(simulate(program, plan, shape, costs)).peakBytes, expected);
  const std::vector<MemoryPeak> peaks = memoryPeaks(program, plan, shape, costs);
  EXPECT_EQ((std::vector<int64_t>{peaks[0].bytes, peaks[1].bytes}), expected);
  costs.sentBytes = {0, 0};
  EXPECT_TRUE(failedWith(simulate(program, plan, shape, costs), ExitCode::Usage,
                         "costs: sentBytes: expected 1 as the plan has, got 2"));
}

/// A value of 8 bytes that both stages of a rank keep is there once, until the last of them has
/// freed it: here W of stage 1.
TEST(Simulate, whatTwoStagesKeepIsThereOnce) {
  const Plan plan = chainPlan({0, 0});
  const RunShape shape = shapeOf(1);
  ProgramCosts costs = costsOf({{1, 1, 1, 50, 20}, {1, 1, 1, 40, 10}});
  costs.channelBytes = {8};
  const Program whole = programOf("0F0,1F0,1B0,0B0\n", plan, shape),
                split = programOf("0F0,1F0,1I0,0I0,1W0,0W0\n", plan, shape);
  EXPECT_EQ(take(simulate(whole, plan, shape, costs)).peakBytes[0], 50 + 40 + 8);
  costs.sentBytes = {0};
  costs.keptByReader = {8};
  EXPECT_EQ(take(simulate(whole, plan, shape, costs)).peakBytes[0], 50 + 40 - 8 + 8 /*gradient*/);
  OpMemory memory(plan, shape, costs);
  std::vector<int64_t> after;
  int64_t held = 0;
  for (const Op &op : split.ranks[0])
    if (isCompute(op.kind)) {
      held += memory.atStart(op);
      after.push_back(held -= memory.atEnd(0, op));
    }
  EXPECT_EQ(after, (std::vector<int64_t>{50, 82, 80, 60, 30, 0}));
}

/// Ops need more while they run than they leave: I of micro-batch 0 begins with 100 bytes.
TEST(Simulate, opsNeedRoom) {
  const Plan plan = chainPlan({0});
  const RunShape shape = shapeOf(2);
  ProgramCosts costs = costsOf({{10, 20, 30, 50, 40}});
  const Program program = programOf("0F0,0F1,0I0,0W0,0I1,0W1\n", plan, shape);
  EXPECT_EQ(take(simulate(program, plan, shape, costs)).peakBytes[0], 100);
  costs.room = {{.forward = 60, .inputGrad = 30, .weightGrad = 5}};
  EXPECT_EQ(take(simulate(program, plan, shape, costs)).peakBytes[0], 130);
  const MemoryPeak peak = memoryPeaks(program, plan, shape, costs)[0];
  EXPECT_EQ(peak.bytes, 130);
  EXPECT_EQ(toString(program.ranks[0][peak.op]), "I 0 mb=0");
  costs.room[0].weightGrad = 80; // beyond the 60 that W begins with
  EXPECT_EQ(take(simulate(program, plan, shape, costs)).peakBytes[0], 140);
  costs.room.clear();
  costs.room.resize(2);
  EXPECT_TRUE(failedWith(simulate(program, plan, shape, costs), ExitCode::Usage,
                         "costs: room: expected 1 as the plan has, got 2"));
}

/// Gradients of weights are added in the order of micro-batches, so those of 2 and 1 wait for 0.
TEST(Simulate, laterGradientsWait) {
  const Plan plan = chainPlan({0});
  const RunShape shape = shapeOf(3);
  ProgramCosts costs = costsOf({{10, 20, 30, 50, 40}});
  costs.gradientBytes = {7};
  auto heldAfter = [&](const char *csv) {
    OpMemory memory(plan, shape, costs);
    std::vector<int64_t> after;
    int64_t held = 0;
    const Program program = programOf(csv, plan, shape);
    for (const Op &op : program.ranks[0])
      if (isCompute(op.kind)) {
        held += memory.atStart(op);
        after.push_back(held -= memory.atEnd(0, op));
      }
    return after;
  };
  EXPECT_EQ(heldAfter("0F0,0F1,0F2,0B2,0B1,0B0\n"),
            (std::vector<int64_t>{50, 100, 150, 107, 64, 0}));
  EXPECT_EQ(heldAfter("0F0,0F1,0F2,0I0,0W0,0I2,0I1,0W2,0W1\n"),
            (std::vector<int64_t>{50, 100, 150, 110, 100, 60, 20, 17, 0}));
  costs.gradientBytes = {7, 7};
  EXPECT_TRUE(
      failedWith(simulate(programOf("0F0,0F1,0F2,0B0,0B1,0B2\n", plan, shape), plan, shape, costs),
                 ExitCode::Usage, "costs: gradientBytes: expected 1 as the plan has, got 2"));
}

/// Recompute: a forward keeps 3 of 50 bytes, the rest comes back for the backward, and time passes
/// once more.
TEST(Simulate, recomputeTradesMemoryForTime) {
  const Plan plan = chainPlan({0});
  RunShape shape = shapeOf(4);
  ProgramCosts costs = costsOf({{10, 20, 30, 50, 40}});
  costs.keptToRecompute = {3};
  const char *csv = "0F0,0F1,0F2,0F3,0I0,0W0,0I1,0W1,0I2,0W2,0I3,0W3\n";
  const SimulatedRun kept = take(simulate(programOf(csv, plan, shape), plan, shape, costs));
  EXPECT_EQ(kept.makespan, 240);
  EXPECT_EQ(kept.peakBytes[0], 200);
  EXPECT_EQ(kept.lowerBound, 240);
  shape.recompute = {true};
  const SimulatedRun again = take(simulate(programOf(csv, plan, shape), plan, shape, costs));
  EXPECT_EQ(again.makespan, 280);
  EXPECT_EQ(again.peakBytes[0], 4 * 3 + 47);
  EXPECT_EQ(again.lowerBound, 280);
}

/// Two replicas: stage 1 is reduced while stage 0 still computes, OPT waits for its own sum.
TEST(Simulate, reductionsRunBesideTheBackward) {
  Plan plan = chainPlan({0, 0});
  addWeight(plan, 1, 100);
  RunShape shape = shapeOf(1);
  shape.replicas = 2;
  ProgramCosts costs = costsOf({{10, 10, 10}, {10, 10, 10}}, {0, 1000000000});
  costs.optimize = {1, 1};
  const Program program = programOf("0F0,1F0,1B0,0B0\n", plan, shape);
  EXPECT_EQ(take(simulate(program, plan, shape, costs)).makespan, 40 + 100 + 2);
  plan.stages[1].attributes[0].bytes = 10;
  const SimulatedRun run = take(simulate(program, plan, shape, costs));
  EXPECT_EQ(run.makespan, 62);
  EXPECT_EQ(run.work(), 62);
  EXPECT_DOUBLE_EQ(run.bubbleMakespan(), 0);
}

/// The norm waits for the slowest rank, and takes a way through a tree.
TEST(Simulate, normWaitsForAll) {
  const Plan plan = chainPlan({0, 1});
  RunShape shape = shapeOf(1);
  shape.norm = true;
  ProgramCosts costs = costsOf({{10, 10, 10}, {10, 10, 10}}, {5, 0});
  const Program program = programOf("0F0,0B0\n1F0,1B0\n", plan, shape);
  const int64_t makespan = 10 + 5 + 30 + 5 + 20 + 10;
  EXPECT_EQ(take(simulate(program, plan, shape, costs)).makespan, makespan);
  costs.norm = 7;
  EXPECT_EQ(take(simulate(program, plan, shape, costs)).makespan, makespan + 7);
}

TEST(Simulate, ranksOfOneDeviceTakeTurns) {
  const Plan plan = chainPlan({0, 1});
  const RunShape shape = shapeOf(3, false);
  ProgramCosts costs = costsOf({{10}, {10}});
  const Program program = programOf("0F0,0F1,0F2\n1F0,1F1,1F2\n", plan, shape);
  EXPECT_EQ(take(simulate(program, plan, shape, costs)).makespan, 40);
  costs.deviceOfRank = {0, 0};
  const SimulatedRun run = take(simulate(program, plan, shape, costs));
  EXPECT_EQ(run.makespan, 60);
  EXPECT_EQ(run.lowerBound, 60);
}

/// The bound of equal stages, one per rank: (p-1)(F+c) + m(F+I+W).
TEST(Simulate, lowerBoundOfEqualStages) {
  const Plan plan = chainPlan({0, 1, 2, 3});
  const ProgramCosts costs = costsOf(std::vector<StageCosts>(4, {10, 20, 30}), {7, 0});
  EXPECT_EQ(runLowerBound(plan, shapeOf(8), costs), 3 * 17 + 8 * 60);
}

/// Whatever the plan, costs and schedule: never below the bound, never above the static peak.
TEST(Simulate, staysWithinItsCertificates) {
  std::mt19937 random(17);
  for (int i = 0; i < 300; ++i) {
    Plan plan = randomTrainingPlan(random);
    const RunShape shape = randomShape(random, plan);
    auto number = [&](size_t n) { return static_cast<int64_t>(below(random, n)); };
    ProgramCosts costs;
    for (size_t s = 0; s < plan.stages.size(); ++s) {
      costs.stages.push_back({number(50), number(50), number(50), 100, number(100)});
      costs.optimize.push_back(number(20));
      addWeight(plan, s, number(100));
      costs.keptToRecompute.push_back(number(100));
      costs.gradientBytes.push_back(number(100));
    }
    for (size_t c = 0; c < plan.channels.size(); ++c)
      costs.channelBytes.push_back(number(60));
    if (below(random, 2)) {
      for (size_t s = 0; s < plan.stages.size(); ++s)
        costs.room.push_back({number(200), number(200), number(200), number(200), number(200)});
      for (size_t c = 0; c < plan.channels.size(); ++c)
        costs.sentBytes.push_back(number(60));
      for (size_t c = 0; c < plan.channels.size(); ++c)
        costs.keptByReader.push_back(number(60));
      costs.takesAllocate = below(random, 2) == 0;
    }
    costs.link = {number(20), below(random, 2) ? 1000000000 : 0};
    costs.links = {{number(20), 500000000}};
    for (size_t r = 0; r + 1 < plan.ranks; ++r)
      costs.linkOf[{r, r + 1}] = 0;
    if (below(random, 3) == 0)
      costs.deviceOfRank.assign(plan.ranks * shape.replicas, 0);
    const Program program = take(lower(randomSchedule(random, plan, shape), plan, shape));
    llvm::Expected<SimulatedRun> run = simulate(program, plan, shape, costs);
    ASSERT_TRUE(succeeded(run)) << toString(program);
    EXPECT_LE(run->lowerBound, run->makespan) << toString(program);
    const std::vector<MemoryPeak> peaks = memoryPeaks(program, plan, shape, costs);
    for (size_t r = 0; r < peaks.size(); ++r) {
      EXPECT_LE(run->peakBytes[r], peaks[r].bytes) << r << "\n" << toString(program);
      int64_t last = 0;
      for (size_t k = 0; k < program.ranks[r].size(); ++k)
        if (program.ranks[r][k].kind <= OpKind::Recompute) {
          EXPECT_LE(last, run->ranks[r][k].start);
          last = run->ranks[r][k].end;
        }
    }
    EXPECT_EQ(take(simulate(program, plan, shape, costs, false)).makespan, run->makespan);
  }
}

TEST(Memory, isHighestAtTheOpWithMostValuesInFlight) {
  const Plan plan = chainPlan({0, 1});
  const RunShape shape = shapeOf(2);
  ProgramCosts costs = costsOf({{1, 1, 1, 50, 0}, {1, 1, 1, 50, 0}});
  costs.channelBytes = {8};
  const Program program = programOf("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n", plan, shape);
  const std::vector<MemoryPeak> peaks = memoryPeaks(program, plan, shape, costs);
  ASSERT_EQ(peaks.size(), 2u);
  EXPECT_EQ(peaks[0].bytes, 132);
  EXPECT_EQ(toString(program.ranks[0][peaks[0].op]), "SEND ch=0 mb=1 lane=0");
  EXPECT_EQ(peaks[1].bytes, 66); // one micro-batch, its input and a gradient
}

TEST(Simulate, refusesCostsOfAnotherPlan) {
  const Plan plan = chainPlan({0, 1});
  const RunShape shape = shapeOf(1, false);
  const Program program = programOf("0F0\n1F0\n", plan, shape);
  ProgramCosts costs = costsOf({{10}});
  EXPECT_TRUE(failedWith(simulate(program, plan, shape, costs), ExitCode::Usage,
                         "costs: stages: expected 2 as the plan has, got 1"));
  costs = costsOf({{10}, {10}});
  costs.linkOf[{0, 1}] = 3;
  EXPECT_TRUE(failedWith(simulate(program, plan, shape, costs), ExitCode::Usage,
                         "costs: link 3 from rank 0 to rank 1: there are 0 links"));
}

TEST(Simulate, namesAnOpThatNeverRuns) {
  const Plan plan = chainPlan({0, 1});
  const RunShape shape = shapeOf(1, false);
  Program program = programOf("0F0\n1F0\n", plan, shape);
  program.ranks[0].pop_back();
  EXPECT_TRUE(failedWith(simulate(program, plan, shape, costsOf({{10}, {10}})),
                         ExitCode::BadArtifact,
                         "program: rank 1, op 1 (TAKE ch=0 mb=0 lane=0) never runs"));
}

} // namespace
} // namespace pipec
