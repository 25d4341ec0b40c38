// Programs: lowering shown in full for small plans, the checker against mutated programs, deadlocks
// named.
#include "ir/schedule/Program.h"

#include "ir/plan/PlanToJson.h"
#include "ir/schedule/ForwardOnly.h"
#include "ir/schedule/Lower.h"
#include "ir/schedule/ProgramCheck.h"
#include "tests/support/Matchers.h"
#include "tests/support/RunShapes.h"
#include "tests/support/SamplePlan.h"

namespace pipec {
namespace {

Schedule scheduleOf(const Plan &plan, int64_t microBatches) {
  ScheduleShape shape;
  shape.stages = plan.stages.size();
  shape.microBatches = microBatches;
  shape.ranks = plan.ranks;
  for (const StagePlan &stage : plan.stages)
    shape.rankOfStage.push_back(stage.rank);
  return forwardOnly(shape);
}

Program lowered(const Plan &plan, int64_t microBatches) {
  return llvm::cantFail(lower(scheduleOf(plan, microBatches), plan, inferenceOf(microBatches)));
}

TEST(Lower, chainOfTwo) {
  EXPECT_EQ(toString(lowered(chainPlan({0, 1}), 2)), "program ranks=2\n"
                                                     "lane 0: 0 -> 1 window=2\n"
                                                     "rank 0:\n"
                                                     "  F 0 mb=0\n"
                                                     "  SEND ch=0 mb=0 lane=0\n"
                                                     "  F 0 mb=1\n"
                                                     "  SEND ch=0 mb=1 lane=0\n"
                                                     "rank 1:\n"
                                                     "  POST ch=0 mb=0 lane=0\n"
                                                     "  POST ch=0 mb=1 lane=0\n"
                                                     "  TAKE ch=0 mb=0 lane=0\n"
                                                     "  F 1 mb=0\n"
                                                     "  TAKE ch=0 mb=1 lane=0\n"
                                                     "  F 1 mb=1\n");
}

/// Channel 1 goes from stage 0 to stages 1 and 2 on one other rank: sent once. Channel 2 stays
/// inside a rank: no op.
TEST(Lower, sendsOncePerRankAndNothingInsideOne) {
  Plan plan = emptyPlan({0, 1, 1});
  connect(plan, 0, {1, 2});
  connect(plan, 1, {2});
  EXPECT_EQ(toString(lowered(plan, 1)), "program ranks=2\n"
                                        "lane 0: 0 -> 1 window=1\n"
                                        "rank 0:\n"
                                        "  F 0 mb=0\n"
                                        "  SEND ch=0 mb=0 lane=0\n"
                                        "rank 1:\n"
                                        "  POST ch=0 mb=0 lane=0\n"
                                        "  TAKE ch=0 mb=0 lane=0\n"
                                        "  F 1 mb=0\n"
                                        "  F 2 mb=0\n");
}

/// The skip value (channel 2) is on the lane before channel 1 is: its receiver takes it first
/// although it is read later.
TEST(Lower, takesInLaneOrder) {
  Plan plan = chainPlan({0, 0, 1, 1});
  connect(plan, 0, {3});
  EXPECT_EQ(toString(lowered(plan, 1)), "program ranks=2\n"
                                        "lane 0: 0 -> 1 window=2\n"
                                        "rank 0:\n"
                                        "  F 0 mb=0\n"
                                        "  SEND ch=3 mb=0 lane=0\n"
                                        "  F 1 mb=0\n"
                                        "  SEND ch=1 mb=0 lane=0\n"
                                        "rank 1:\n"
                                        "  POST ch=3 mb=0 lane=0\n"
                                        "  POST ch=1 mb=0 lane=0\n"
                                        "  TAKE ch=3 mb=0 lane=0\n"
                                        "  TAKE ch=1 mb=0 lane=0\n"
                                        "  F 2 mb=0\n"
                                        "  F 3 mb=0\n");
}

TEST(Lower, refusesSchedulesThatDoNotFit) {
  Plan plan = chainPlan({0, 1});
  struct Case {
    const char *csv, *message;
  };
  const Case cases[] = {
      {"0F0,0F1\n", "schedule: expected 2 ranks as the plan has, got 1"},
      {"0F0,0F1\n1F0\n", "schedule: 1F1 is missing"},
      {"0F0,0F1,0F0\n1F0,1F1\n", "schedule: rank 0: 0F0 appears twice"},
      {"0F0,0F1,1F0\n1F1\n", "schedule: rank 0: 1F0: the plan has stage 1 on rank 1"},
      {"0F0,0F1\n1F0,1F1,2F0\n", "schedule: rank 1: 2F0: the plan has 2 stages"},
      {"0F0,0F1\n1F0,1F1,1F2\n", "schedule: rank 1: 1F2: there are 2 micro-batches"},
      {"0F0,0F1\n1F0,1F1,1B0\n", "schedule: rank 1: 1B0: only forward actions"},
  };
  for (const Case &c : cases)
    EXPECT_TRUE(failedWith(lower(llvm::cantFail(scheduleFromCsv(c.csv)), plan, inferenceOf(2)),
                           ExitCode::Usage, c.message))
        << c.csv;
}

TEST(Lower, stateReachesMicroBatchesInTheirOrder) {
  Plan plan = chainPlan({0, 1});
  const Schedule schedule = llvm::cantFail(scheduleFromCsv("0F1,0F0\n1F1,1F0\n"));
  EXPECT_TRUE(succeeded(lower(schedule, plan, inferenceOf(2))));
  plan.stages[1].effects.stateWrites = {"norm.running_mean"};
  EXPECT_TRUE(failedWith(lower(schedule, plan, inferenceOf(2)), ExitCode::Usage,
                         "schedule: rank 1: 1F1: stage 1 writes state (norm.running_mean), so its "
                         "forwards come in the order of micro-batches: expected micro-batch 0, got "
                         "1"));
}

TEST(Lower, refusesAScheduleThatDeadlocks) {
  Plan plan = chainPlan({0, 1, 0});
  llvm::Expected<Schedule> schedule = scheduleFromCsv("2F0,0F0\n1F0\n");
  ASSERT_TRUE(succeeded(schedule));
  EXPECT_TRUE(failedWith(lower(*schedule, plan, inferenceOf(1)), ExitCode::Usage,
                         "deadlock: rank 0, op 1 (TAKE ch=1 mb=0 lane=1) waits for rank 1, op 1 "
                         "(TAKE ch=0 mb=0 lane=0) waits for rank 0"));
  // Within a rank the same mistake is no deadlock but an order that can never work.
  EXPECT_TRUE(failedWith(
      lower(llvm::cantFail(scheduleFromCsv("1F0,0F0\n")), chainPlan({0, 0}), inferenceOf(1)),
      ExitCode::Usage, "rank 0, op 0 (F 1 mb=0): input c0 (channel 0) is not there yet"));
}

/// All micro-batches of stage 0 before any of stage 2: the skip values need more look-ahead than a
/// pipeline of one stage per rank does.
TEST(Lower, widensLanesForBreadthFirst) {
  Plan plan = emptyPlan({0, 1, 2, 1});
  connect(plan, 0, {1});
  connect(plan, 1, {2});
  connect(plan, 2, {3});
  connect(plan, 0, {3});
  llvm::Expected<Schedule> schedule =
      scheduleFromCsv("0F0,0F1,0F2,0F3,0F4,0F5,0F6,0F7\n1F0,1F1,1F2,1F3,1F4,1F5,1F6,1F7,3F0,3F1,"
                      "3F2,3F3,3F4,3F5,3F6,3F7\n"
                      "2F0,2F1,2F2,2F3,2F4,2F5,2F6,2F7\n");
  ASSERT_TRUE(succeeded(schedule));
  llvm::Expected<Program> program = lower(*schedule, plan, inferenceOf(8));
  ASSERT_TRUE(succeeded(program));
  EXPECT_TRUE(succeeded(check(*program, plan, inferenceOf(8))));
}

TEST(Program, randomPlansLowerCheckAndRoundTrip) {
  std::mt19937 random(7);
  for (int i = 0; i < 300; ++i) {
    Plan plan = randomPlan(random);
    int64_t microBatches = 1 + i % 5;
    llvm::Expected<Program> program =
        lower(scheduleOf(plan, microBatches), plan, inferenceOf(microBatches));
    ASSERT_TRUE(succeeded(program)) << toJson(plan);
    EXPECT_TRUE(succeeded(check(*program, plan, inferenceOf(microBatches))));
    llvm::Expected<Program> back = programFromText(toString(*program));
    ASSERT_TRUE(succeeded(back));
    EXPECT_EQ(*back, *program);
  }
}

TEST(Program, textIsReadStrictly) {
  struct Case {
    const char *text, *message;
  };
  const Case cases[] = {
      {"", "expected 0 ranks, got 0"},
      {"rank 0:\n", "line 1: not expected here"},
      {"program ranks=2\nrank 0:\n", "expected 2 ranks, got 1"},
      {"program ranks=1\nrank 1:\n", "line 2"},
      {"program ranks=1\n  F 0 mb=0\nrank 0:\n", "line 2"},
      {"program ranks=1\nrank 0:\n  F 0\n", "line 3: not expected here: \"  F 0\""},
      {"program ranks=1\nrank 0:\n  F 00 mb=0\n", "line 3"},
      {"program ranks=1\nrank 0:\n  F -1 mb=0\n", "line 3"},
      {"program ranks=1\nrank 0:\n  F 99999999999999999999 mb=0\n", "line 3"},
      {"program ranks=1\nrank 0:\n  JUMP ch=0 mb=0 lane=0\n",
       "line 3: expected an op, got \"JUMP ch=0 mb=0 lane=0\""},
      {"program ranks=1\nrank 0:\n  NORM\n", "line 3: not expected here: \"  NORM\""},
      {"program ranks=1\nrank 0:\n  SEND ch=0 mb=0 lane=0 x\n", "line 3"},
      {"program ranks=1\nrank 0:\n  FINITE group=0\n",
       "line 3: expected no FINITE, an op of earlier versions, got \"FINITE group=0\""},
      {"program ranks=1\nrank 0:\n  FINITE\n",
       "line 3: expected no FINITE, an op of earlier versions, got \"FINITE\""},
      {"program ranks=1\nlane 1: 0 -> 1 window=1\n", "line 2"},
      {"program ranks=1\nrank 0:\nlane 0: 0 -> 1 window=1\n", "line 3"},
  };
  for (const Case &c : cases)
    EXPECT_TRUE(failedWith(programFromText(c.text), ExitCode::BadArtifact, c.message)) << c.text;
  EXPECT_TRUE(succeeded(
      programFromText("# made by hand\n\nprogram ranks=1\nrank 0: # the only one\n  F 0 mb=0\n")));
}

TEST(Program, anUnknownOpIsExplained) {
  auto help = [](const std::string &line) {
    llvm::Expected<Program> program =
        programFromText(fmt::format("program ranks=1\nrank 0:\n  {}\n", line));
    return program ? "accepted" : describe(program.takeError()).help;
  };
  EXPECT_EQ(help("TAK ch=0 mb=0 lane=0"), "did you mean TAKE?");
  EXPECT_EQ(help("BROADCAST 0"), "the ops are F, B, I, W, R, POST, SEND, TAKE, REDUCE, TIE_REDUCE, "
                                 "NORM, OPT");
  EXPECT_EQ(help("FINITE"), "remove the line: NORM tells whether all gradients are finite, too");
}

/// One program, one edit, one finding.
TEST(Check, namesRankAndOp) {
  struct Case {
    const char *message;
    void (*edit)(Program &);
  };
  // rank 0: F SEND F SEND; rank 1: POST POST TAKE F TAKE F
  const Case cases[] = {
      {"expected 2 ranks as the plan has, got 3", [](Program &p) { p.ranks.emplace_back(); }},
      {"lane 0: expected two ranks of its own and a window of at least 1, got 0 -> 1 window=0",
       [](Program &p) { p.lanes[0].window = 0; }},
      {"lane 0: expected two ranks of its own", [](Program &p) { p.lanes[0].to = 0; }},
      {"lane 0: expected two ranks of its own", [](Program &p) { p.lanes[0].to = 5; }},
      {"lane 1: expected two ranks of its own", [](Program &p) { p.lanes.push_back(p.lanes[0]); }},
      {"rank 0, op 2 (F 0 mb=0): runs a second time",
       [](Program &p) { p.ranks[0][2].microBatch = 0; }},
      {"rank 0, op 2 (F 0 mb=7): there are 2 micro-batches",
       [](Program &p) { p.ranks[0][2].microBatch = 7; }},
      {"rank 0, op 0 (F 9 mb=0): the plan has 2 stages",
       [](Program &p) { p.ranks[0][0].stage = 9; }},
      {"rank 0, op 0 (F 1 mb=0): the plan has stage 1 on rank 1",
       [](Program &p) { p.ranks[0][0].stage = 1; }},
      {"rank 1: F 1 mb=1 is missing", [](Program &p) { p.ranks[1].pop_back(); }},
      {"rank 1, op 2 (F 1 mb=0): input c0 (channel 0) is not there yet",
       [](Program &p) { std::swap(p.ranks[1][2], p.ranks[1][3]); }},
      {"rank 0, op 0 (SEND ch=0 mb=0 lane=0): stage 0 has not made it yet",
       [](Program &p) { std::swap(p.ranks[0][0], p.ranks[0][1]); }},
      {"rank 0, op 4 (SEND ch=0 mb=1 lane=0): is sent a second time",
       [](Program &p) { p.ranks[0].push_back(p.ranks[0][3]); }},
      {"rank 1, op 1 (TAKE ch=0 mb=0 lane=0): was not posted before",
       [](Program &p) { p.ranks[1].erase(p.ranks[1].begin()); }},
      {"rank 1, op 2 (POST ch=0 mb=1 lane=0): more than 2 messages posted ahead",
       [](Program &p) { p.ranks[1].insert(p.ranks[1].begin(), p.ranks[1][0]); }},
      {"lane 0: rank 1 takes ch=0 mb=1, which rank 0 never sends",
       [](Program &p) { p.ranks[0].pop_back(); }},
      {"lane 0: message 0: rank 0 sends ch=0 mb=1, but rank 1 takes ch=0 mb=0",
       [](Program &p) {
         p.ranks[0] = {p.ranks[0][0], p.ranks[0][2], p.ranks[0][3], p.ranks[0][1]};
       }},
      {"rank 0, op 1 (SEND ch=9 mb=0 lane=0): the plan has no activation channel 9",
       [](Program &p) { p.ranks[0][1].channel = 9; }},
      {"rank 0, op 1 (SEND ch=0 mb=0 lane=9): there are 1 lanes",
       [](Program &p) { p.ranks[0][1].lane = 9; }},
      {"rank 0, op 1 (TAKE ch=0 mb=0 lane=0): this end of the lane is on rank 1",
       [](Program &p) { p.ranks[0][1].kind = OpKind::Take; }},
      {"rank 0, op 1 (SEND ch=0 mb=0 lane=0): the channel does not go from rank 1 to rank 0",
       [](Program &p) { std::swap(p.lanes[0].from, p.lanes[0].to); }},
  };
  Plan plan = chainPlan({0, 1});
  ASSERT_TRUE(succeeded(check(lowered(plan, 2), plan, inferenceOf(2))));
  for (const Case &c : cases) {
    Program program = lowered(plan, 2);
    c.edit(program);
    EXPECT_TRUE(failedWith(check(program, plan, inferenceOf(2)), ExitCode::BadArtifact, c.message))
        << c.message;
  }
}

/// Rank 0 sends every micro-batch before it takes one back, through lanes that hold one message:
/// three fit, the fourth does not.
TEST(Check, namesADeadlockOfFullLanes) {
  Plan plan = chainPlan({0, 1, 0});
  auto make = [](int64_t microBatches) {
    Program program;
    program.lanes = {{0, 1, 1}, {1, 0, 1}};
    program.ranks.resize(2);
    for (int64_t m = 0; m < microBatches; ++m) {
      program.ranks[0].push_back({OpKind::Forward, 0, 0, 0, m});
      program.ranks[0].push_back({OpKind::Send, 0, 0, 0, m});
      for (OpKind kind : {OpKind::Post, OpKind::Take})
        program.ranks[1].push_back({kind, 0, 0, 0, m});
      program.ranks[1].push_back({OpKind::Forward, 1, 0, 0, m});
      program.ranks[1].push_back({OpKind::Send, 0, 1, 1, m});
    }
    for (int64_t m = 0; m < microBatches; ++m) {
      for (OpKind kind : {OpKind::Post, OpKind::Take})
        program.ranks[0].push_back({kind, 0, 1, 1, m});
      program.ranks[0].push_back({OpKind::Forward, 2, 0, 0, m});
    }
    return program;
  };
  EXPECT_TRUE(succeeded(check(make(3), plan, inferenceOf(3))));
  EXPECT_TRUE(failedWith(check(make(4), plan, inferenceOf(4)), ExitCode::BadArtifact,
                         "program: deadlock: rank 0, op 7 (SEND ch=0 mb=3 lane=0) waits for rank "
                         "1, op 7 (SEND ch=1 mb=1 lane=1) "
                         "waits for rank 0"));
}

/// Deleting, doubling or exchanging any single op of a lowered program is noticed, except exchanges
/// that leave a valid program.
TEST(Check, mutationsAreCaught) {
  std::mt19937 random(3);
  size_t swapsAccepted = 0, swaps = 0;
  for (int i = 0; i < 30; ++i) {
    Plan plan = randomPlan(random);
    Program program = lowered(plan, 3);
    for (size_t r = 0; r < program.ranks.size(); ++r)
      for (size_t k = 0; k < program.ranks[r].size(); ++k) {
        Program without = program;
        without.ranks[r].erase(without.ranks[r].begin() + static_cast<long>(k));
        EXPECT_FALSE(succeeded(check(without, plan, inferenceOf(3))))
            << toString(program) << r << " " << k;
        Program twice = program;
        twice.ranks[r].insert(twice.ranks[r].begin() + static_cast<long>(k), program.ranks[r][k]);
        EXPECT_FALSE(succeeded(check(twice, plan, inferenceOf(3))))
            << toString(program) << r << " " << k;
        if (k + 1 == program.ranks[r].size())
          continue;
        Program swapped = program;
        std::swap(swapped.ranks[r][k], swapped.ranks[r][k + 1]);
        ++swaps;
        llvm::Error error = check(swapped, plan, inferenceOf(3));
        swapsAccepted += !error;
        llvm::consumeError(std::move(error));
      }
  }
  EXPECT_GT(swaps, 100u);
  EXPECT_LT(swapsAccepted,
            swaps); // some orders are free: two stages of a rank that do not depend on each other
}

} // namespace
} // namespace pipec
