// What a user says of a training, and what is taken where nothing is said.
#include "compiler/planner/PlanTraining.h"

#include "tests/support/Matchers.h"

namespace pipec {
namespace {

/// Operators that are all alike, of two samples.
CostTable evenTable(size_t operators) {
  CostTable table;
  table.training = true;
  table.batch = 2;
  for (size_t i = 0; i < operators; ++i) {
    CostRow &row = table.rows.emplace_back();
    row.op = "aten::op";
    row.module = "layer." + std::to_string(i);
    row.forwardNs = row.weightGradNs = 100'000;
    row.inputGradNs = i ? 100'000 : 0;
    row.outputBytes = 1000;
    row.keptBytes = 50'000;
    row.weightBytes = row.trainedBytes = 2000;
    if (i > 0)
      row.reads = {static_cast<uint32_t>(i - 1)};
  }
  return table;
}

TrainingWishes onRanks(size_t ranks) {
  TrainingWishes wishes;
  wishes.ranks = ranks;
  return wishes;
}

TEST(PlanTraining, SaysAllOfTheBestPipeline) {
  const PlannedTraining plan = take(planTraining(evenTable(12), onRanks(2)));
  EXPECT_EQ(plan.ranks, 2u);
  EXPECT_EQ(plan.stages.size() % 2, 0u);
  EXPECT_EQ(plan.stages.size(), plan.boundaries.size() + 1);
  EXPECT_EQ(plan.stages.front().begin, 0u);
  EXPECT_EQ(plan.stages.back().end, 12u);
  EXPECT_EQ(plan.stages.front().firstModule, "layer.0");
  EXPECT_EQ(plan.stages.back().lastModule, "layer.11");
  EXPECT_EQ(plan.microBatches, 4); // two per rank, like the table's
  EXPECT_EQ(plan.samples, 2);
  EXPECT_FALSE(plan.tied);
  EXPECT_EQ(plan.peakBytes.size(), 2u);
  EXPECT_EQ(plan.timing.makespan, plan.stepNs);
  EXPECT_LE(plan.lowerBoundNs, plan.stepNs);
  EXPECT_LT(plan.gap(), 0.2);
  EXPECT_EQ(plan.timing.ranks.size(), 2u);
}

/// At the rate of a usual device, 25 GB/s: 21 accesses for each byte of a trained weight.
TEST(PlanTraining, CountsTheUpdate) {
  auto stepNs = [](int64_t trainedBytes) {
    CostTable table = evenTable(1);
    table.rows[0].weightBytes = table.rows[0].trainedBytes = trainedBytes;
    TrainingWishes wishes = onRanks(1);
    wishes.stages = 1;
    wishes.microBatches = 1;
    return take(planTraining(table, wishes)).stepNs;
  };
  EXPECT_EQ(stepNs(25'000), 200'000 + 21'000);
  EXPECT_EQ(stepNs(25'025'000), 200'000 + 21'021'000);
}

TEST(PlanTraining, CutsTheBatchAsAsked) {
  const CostTable table = evenTable(8);
  auto shapeOf = [&](int64_t batch, int64_t microBatches) {
    TrainingWishes wishes = onRanks(2);
    wishes.batch = batch;
    wishes.microBatches = microBatches;
    const PlannedTraining plan = take(planTraining(table, wishes));
    return std::pair(plan.microBatches, plan.samples);
  };
  EXPECT_EQ(shapeOf(0, 6), std::pair(int64_t(6), int64_t(2)));
  EXPECT_EQ(shapeOf(24, 6), std::pair(int64_t(6), int64_t(4)));
  EXPECT_EQ(shapeOf(7, 3), std::pair(int64_t(3), int64_t(3))); // the largest counts
  EXPECT_EQ(shapeOf(1, 0), std::pair(int64_t(1), int64_t(1))); // smaller than the table's
  const auto [number, samples] = shapeOf(16, 0);
  EXPECT_EQ(number * samples, 16);
  EXPECT_GE(samples, 2); // nothing shows what smaller ones cost
}

TEST(PlanTraining, CutsWhereItIsTold) {
  const CostTable table = evenTable(8);
  TrainingWishes wishes;
  wishes.microBatches = 4;
  wishes.cuts = std::vector<size_t>{1, 3, 7};
  for (size_t ranks : {0, 1, 2, 4}) { // 0: one per stage
    wishes.ranks = ranks;
    const PlannedTraining plan = take(planTraining(table, wishes));
    EXPECT_EQ(plan.boundaries, *wishes.cuts);
    EXPECT_EQ(plan.ranks, ranks ? ranks : 4);
    EXPECT_TRUE(plan.everyCut);
  }
  wishes.ranks = 3;
  EXPECT_TRUE(failedWith(
      planTraining(table, wishes), ExitCode::Usage,
      "--ranks: expected a divisor of 4, the number of stages that the given cuts make"));
  wishes.ranks = 0;
  wishes.cluster = defaultCluster(3);
  const ErrorText why = describe(planTraining(table, wishes).takeError());
  EXPECT_EQ(why.message,
            "--cluster: expected a number of devices that divides 4, the number of stages that "
            "the given cuts make, got 3");
  EXPECT_NE(why.help.find("; --ranks 2 uses only the first 2 devices"), std::string::npos);
  wishes.ranks = 2; // as the help says
  EXPECT_EQ(take(planTraining(table, wishes)).ranks, 2u);
  wishes.cluster = std::nullopt;
  wishes.stages = 2;
  EXPECT_TRUE(failedWith(planTraining(table, wishes), ExitCode::Usage, "--stages: expected 4"));
  wishes.stages = 0;
  for (const std::vector<size_t> &wrong : {std::vector<size_t>{0}, {8}, {3, 3}, {3, 2}}) {
    wishes.cuts = wrong;
    EXPECT_TRUE(
        failedWith(planTraining(table, wishes), ExitCode::Usage, "got one before operator"));
  }
  wishes.cuts = std::vector<size_t>{};
  wishes.ranks = 1;
  EXPECT_EQ(take(planTraining(table, wishes)).stages.size(), 1u);
}

/// A weight that has a mode by name has that; the others have what is best, or what was said.
TEST(PlanTraining, KeepsSharedWeightsAsTold) {
  CostTable table = evenTable(8);
  table.shared = {{"a", 2000, true, {0, 7}}, {"b", 2000, true, {1, 6}}};
  TrainingWishes wishes = onRanks(2);
  wishes.stages = 2;
  auto modes = [&] {
    const PlannedTraining plan = take(planTraining(table, wishes));
    std::vector<Tie::Mode> found;
    for (const Tie &tie : plan.plan.ties)
      found.push_back(tie.mode);
    EXPECT_EQ(plan.tied.has_value(), wishes.tiedByName.size() < 2);
    return found;
  };
  const Tie::Mode sent = Tie::Mode::Transmit, copied = Tie::Mode::Replicate;
  using Modes = std::vector<Tie::Mode>;
  for (Tie::Mode mode : {sent, copied}) {
    wishes.tied = mode;
    wishes.tiedByName.clear();
    EXPECT_EQ(modes(), (Modes{mode, mode}));
    wishes.tiedByName = {{"b", sent}};
    EXPECT_EQ(modes(), (Modes{mode, sent}));
    wishes.tiedByName = {{"a", sent}, {"b", copied}};
    EXPECT_EQ(modes(), (Modes{sent, copied}));
  }
}

TEST(PlanTraining, CountsWholeBackwardsAsInputGradients) {
  const CostTable table = evenTable(12);
  TrainingWishes wishes = onRanks(4);
  wishes.cuts = std::vector<size_t>{3, 6, 9};
  wishes.microBatches = 8;
  wishes.recompute = RecomputeChoice::Never;
  wishes.schedule = "zb-h1";
  const PlannedTraining split = take(planTraining(table, wishes));
  wishes.splitBackward = false;
  const PlannedTraining whole = take(planTraining(table, wishes));
  ASSERT_EQ(whole.stages.size(), 4u);
  for (size_t s = 0; s < 4; ++s) {
    const StageCosts &costs = whole.stages[s].costs;
    EXPECT_EQ(costs.inputGrad, split.stages[s].costs.fullBackward());
    EXPECT_EQ(costs.weightGrad, 0);
    EXPECT_EQ(costs.heldByForward, split.stages[s].costs.heldByForward);
    EXPECT_EQ(costs.freedByInputGrad, costs.heldByForward);
    // Of stage 0 a gradient waits for W beside all that F kept.
    EXPECT_EQ(split.stages[s].costs.freedByInputGrad, s ? 0 : -1000);
  }
  EXPECT_GT(whole.stepNs, split.stepNs) << "no W fills the bubble";
  EXPECT_LE(whole.peakBytes.front(), split.peakBytes.front());
}

/// With a recomputation an I that is whole frees what it has made once more and what was kept.
TEST(PlanTraining, WholeBackwardsFreeAllAfterARecomputation) {
  TrainingProblem problem;
  problem.table = evenTable(12);
  problem.ranks = 4;
  problem.cluster = defaultCluster(4);
  TrainingPoint point;
  point.boundaries = {3, 6, 9};
  for (const bool splits : {true, false}) {
    problem.splitBackward = splits;
    const StagedWork work = TrainingStages(problem).workOf(point);
    const ScheduleCosts costs = tableCosts(work, std::vector<bool>(4, true));
    for (size_t s = 0; s < 4; ++s) {
      EXPECT_EQ(costs.stages[s].heldByForward, work.costs.keptToRecompute[s]);
      const int64_t pending = splits ? work.costs.stages[s].freedByWeightGrad() : 0;
      EXPECT_EQ(costs.stages[s].freedByInputGrad, work.costs.keptToRecompute[s] - pending);
    }
  }
}

/// A run has nothing to compute at I of a stage that receives no value with a gradient.
TEST(PlanTraining, TheFirstStageRunsBackwardInW) {
  TrainingProblem problem;
  problem.table = evenTable(6);
  problem.ranks = 2;
  problem.cluster = defaultCluster(2);
  TrainingPoint point;
  point.boundaries = {3};
  auto costs = [&] { return TrainingStages(problem).workOf(point).costs.stages; };
  EXPECT_EQ(costs()[0].inputGrad, 0);
  EXPECT_EQ(costs()[0].weightGrad, 500'000);
  EXPECT_EQ(costs()[0].freedByWeightGrad(), 3 * 50'000 + 1000);
  EXPECT_EQ(costs()[1].inputGrad, 300'000);
  EXPECT_EQ(costs()[1].weightGrad, 300'000);
  // A later stage receives the second operator's value, too.
  problem.table.rows[4].reads = {1, 3};
  EXPECT_EQ(costs()[0].inputGrad, 0);
  EXPECT_EQ(costs()[0].weightGrad, 500'000);
  EXPECT_EQ(costs()[0].freedByWeightGrad(), 3 * 50'000 + 2 * 1000);
  // In stage 1 the fourth operator has a weight of its own, and reads nothing.
  problem.table.rows[4].reads = {2, 3};
  problem.table.rows[3].reads = {};
  EXPECT_EQ(costs()[1].inputGrad, 200'000);
  EXPECT_EQ(costs()[1].weightGrad, 400'000);
}

/// As a run does (SplitWalk), but only if a result leads to a received value with a gradient.
TEST(PlanTraining, IWalksFromOneResultToTheOther) {
  TrainingProblem problem;
  problem.table = evenTable(9);
  problem.ranks = 3;
  problem.cluster = defaultCluster(3);
  TrainingPoint point;
  point.boundaries = {3, 6};
  auto costs = [&] { return TrainingStages(problem).workOf(point).costs.stages[1]; };
  // The fourth operator reads its weight only. The fifth reads it, and the last stage does.
  problem.table.rows[3].reads = {};
  problem.table.rows[7].reads = {3, 6};
  problem.table.rows[5].reads = {2, 4};
  EXPECT_EQ(costs().inputGrad, 200'000);
  EXPECT_EQ(costs().weightGrad, 400'000);
  problem.table.rows[5].reads = {4}; // nothing is received
  EXPECT_EQ(costs().inputGrad, 0);
  EXPECT_EQ(costs().weightGrad, 600'000);
  // What the stage receives has no gradient.
  for (size_t i = 0; i < 3; ++i)
    problem.table.rows[i].trainedBytes = 0;
  problem.table.rows[5].reads = {2, 4};
  EXPECT_EQ(costs().inputGrad, 0);
  EXPECT_EQ(costs().weightGrad, 600'000);
}

/// What the table says of operators on the way of I; all that F kept of the others.
TEST(PlanTraining, CountsWhatWNeeds) {
  TrainingProblem problem;
  problem.table = evenTable(6);
  problem.table.pending = true;
  for (CostRow &row : problem.table.rows)
    row.pendingBytes = 3000;
  problem.ranks = 2;
  problem.cluster = defaultCluster(2);
  TrainingPoint point;
  point.boundaries = {3};
  auto pending = [&](size_t stage) {
    return TrainingStages(problem).workOf(point).costs.stages[stage].freedByWeightGrad();
  };
  EXPECT_EQ(pending(0), 3 * 50'000 + 1000);
  EXPECT_EQ(pending(1), 3 * 3000);
  problem.table.rows[2].reads = {0}; // it reads what an operator of the next stage does, too
  problem.table.rows[3].reads = {0, 2};
  EXPECT_EQ(pending(1), 3 * 3000 + 1000);
  problem.table.rows[2].pendingBytes = 0; // but not for W
  problem.table.rows[1].reads = {};
  EXPECT_EQ(pending(1), 3 * 3000);
  problem.table.rows[3].reads = {}; // where the ways meet, the gradient waits
  problem.table.rows[4].reads = {2, 3};
  EXPECT_EQ(pending(1), 50'000 + 51'000 + 3000);
  problem.splitBackward = false;
  EXPECT_EQ(pending(1), 0);
}

/// Of numbers of micro-batches that are free but not tried, too.
TEST(PlanTraining, TheBoundHoldsForEveryNumberOfMicroBatches) {
  const CostTable table = evenTable(12);
  TrainingWishes wishes = onRanks(4);
  wishes.stages = 4;
  wishes.batch = 1800;
  const PlannedTraining best = take(planTraining(table, wishes));
  for (int64_t number : {3, 60, 100, 225, 300, 450, 900}) {
    wishes.microBatches = number;
    EXPECT_LE(best.lowerBoundNs, take(planTraining(table, wishes)).stepNs) << number;
  }
}

/// The number of micro-batches is free: if nothing else fits, the smallest ones are used.
TEST(PlanTraining, TheLeastMemoryIsThatOfTheSmallestMicroBatches) {
  const CostTable table = evenTable(12);
  auto least = [&](int64_t number) {
    TrainingWishes wishes = onRanks(2);
    wishes.batch = 2000;
    wishes.microBatches = number;
    wishes.memoryLimit = 1000;
    const std::string why = describe(planTraining(table, wishes).takeError()).message;
    return std::stoll(why.substr(why.find("at least ") + 9));
  };
  EXPECT_EQ(least(0), least(1000));
  EXPECT_LT(least(0), least(16));
  TrainingWishes wishes = onRanks(2);
  wishes.batch = 2000;
  wishes.memoryLimit = least(0);
  EXPECT_EQ(take(planTraining(table, wishes)).microBatches, 1000);
}

TEST(PlanTraining, KeepsWithinTheMemory) {
  const CostTable table = evenTable(12);
  const PlannedTraining free = take(planTraining(table, onRanks(2)));
  TrainingWishes wishes = onRanks(2);
  wishes.memoryLimit = free.peakBytes[0] - 1;
  const PlannedTraining tight = take(planTraining(table, wishes));
  for (size_t r = 0; r < 2; ++r)
    EXPECT_LE(tight.peakBytes[r], wishes.memoryLimit);
  EXPECT_GE(tight.stepNs, free.stepNs);
  wishes.memoryLimit = 1000;
  EXPECT_TRUE(failedWith(planTraining(table, wishes), ExitCode::NoPlan,
                         "no pipeline fits: expected at least"));
}

TEST(PlanTraining, TakesRanksFromWhatIsSaid) {
  const CostTable table = evenTable(12);
  TrainingWishes wishes;
  EXPECT_TRUE(failedWith(planTraining(table, wishes), ExitCode::Usage,
                         "expected ranks or stages, got neither"));
  wishes.stages = 3;
  EXPECT_EQ(take(planTraining(table, wishes)).ranks, 3u);
  wishes.cluster = defaultCluster(2);
  EXPECT_TRUE(failedWith(planTraining(table, wishes), ExitCode::Usage,
                         "--stages: expected a multiple of 2, the number of ranks, got 3"));
  wishes.stages = 4;
  const PlannedTraining plan = take(planTraining(table, wishes));
  EXPECT_EQ(plan.ranks, 2u);
  EXPECT_EQ(plan.stages.size(), 4u);
  wishes.schedule = "zb-v";
  EXPECT_EQ(take(planTraining(table, wishes)).scheduleName, "zb-v");
}

/// Where a backward cannot be split, the stage before waits for both of its parts.
TEST(PlanTraining, WholeBackwardsDelayTheStagesBefore) {
  TrainingWishes wishes = onRanks(2);
  wishes.stages = 2;
  wishes.schedule = "zb-h1";
  wishes.microBatches = 1;
  const PlannedTraining split = take(planTraining(evenTable(2), wishes));
  auto stepNs = [&](const std::vector<size_t> &stages) {
    PlannedTraining plan = split;
    EXPECT_TRUE(succeeded(keepWhole(stages, plan)));
    EXPECT_EQ(plan.timing.makespan, plan.stepNs);
    return plan.stepNs;
  };
  EXPECT_EQ(stepNs({}), split.stepNs);
  EXPECT_EQ(stepNs({0}), split.stepNs);
  EXPECT_EQ(stepNs({1}), split.stepNs + 100'000);
  EXPECT_EQ(stepNs({0, 1}), split.stepNs + 100'000);
}

TEST(PlanTraining, WholeBackwardsFreeAllAtI) {
  TrainingWishes wishes = onRanks(3);
  wishes.stages = 3;
  wishes.schedule = "zb-h2";
  wishes.microBatches = 8;
  const PlannedTraining split = take(planTraining(evenTable(12), wishes));
  PlannedTraining whole = split;
  ASSERT_TRUE(succeeded(keepWhole(std::vector<size_t>{0, 1, 2}, whole)));
  for (size_t s = 0; s < 3; ++s) {
    const StageCosts &before = split.stages[s].costs, &after = whole.stages[s].costs;
    EXPECT_EQ(after.inputGrad, before.inputGrad + before.weightGrad) << s;
    EXPECT_EQ(after.weightGrad, 0) << s;
    EXPECT_EQ(after.freedByInputGrad, before.heldByForward) << s;
    EXPECT_LE(whole.peakBytes[s], split.peakBytes[s]) << s;
  }
  EXPECT_GE(whole.stepNs, split.stepNs);
}

TEST(PlanTraining, SaysForHowManyStagesAScheduleIs) {
  TrainingWishes wishes = onRanks(2);
  wishes.stages = 2;
  wishes.schedule = "zb-v";
  auto refusal = [&] { return describe(planTraining(evenTable(12), wishes).takeError()); };
  EXPECT_EQ(refusal().message, "zb-v: expected 2 stages per rank, got 1");
  EXPECT_EQ(refusal().help, "with 2 ranks, use --stages 4; or choose another schedule");
  wishes.stages = 4;
  wishes.schedule = "1f1b";
  EXPECT_EQ(refusal().message, "1f1b: expected 1 stage per rank, got 2");
  EXPECT_EQ(refusal().help, "with 2 ranks, use --stages 2; or choose another schedule");
  wishes.stages = 0;
  const ErrorText empty = describe(planTraining(evenTable(0), wishes).takeError());
  EXPECT_NE(empty.message.find("expected at least one operator"), std::string::npos);
  EXPECT_NE(empty.message.find("got 0, 2"), std::string::npos);
}

TEST(PlanTraining, SaysWhatDoesNotGoTogether) {
  CostTable table = evenTable(6);
  TrainingWishes wishes = onRanks(2);
  wishes.batch = 4;
  wishes.microBatches = 5;
  EXPECT_TRUE(failedWith(planTraining(table, wishes), ExitCode::Usage,
                         "--microbatches: expected at most 4, the samples of --batch, got 5"));
  table.batch = 0;
  EXPECT_TRUE(failedWith(planTraining(table, wishes), ExitCode::Usage,
                         "--batch: expected a cost table with its number of samples"));
  table.training = false;
  EXPECT_TRUE(failedWith(planTraining(table, wishes), ExitCode::Usage,
                         "expected a cost table with backward costs"));
}

} // namespace
} // namespace pipec
