// Programs of a training: lowering shown in full for small plans, the checker's findings, and both
// against an executor that shares no code with them.
#include "ir/schedule/Lower.h"
#include "ir/schedule/ProgramCheck.h"
#include "tests/support/BoundedExecutor.h"
#include "tests/support/Matchers.h"
#include "tests/support/Mutants.h"

#include <cstring>

namespace pipec {
namespace {

llvm::Expected<Program> loweredCsv(const char *csv, const Plan &plan, const RunShape &shape) {
  return lower(llvm::cantFail(scheduleFromCsv(csv)), plan, shape);
}

TEST(LowerTraining, chainOfTwo) {
  llvm::Expected<Program> program =
      loweredCsv("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n", chainPlan({0, 1}), trainingOf(2));
  ASSERT_TRUE(succeeded(program));
  EXPECT_EQ(toString(*program), "program ranks=2\n"
                                "lane 0: 0 -> 1 window=2\n"
                                "lane 1: 1 -> 0 window=2 gradients\n"
                                "rank 0:\n"
                                "  POST grad=0 of=1 mb=0 lane=1\n"
                                "  POST grad=0 of=1 mb=1 lane=1\n"
                                "  F 0 mb=0\n"
                                "  SEND ch=0 mb=0 lane=0\n"
                                "  F 0 mb=1\n"
                                "  SEND ch=0 mb=1 lane=0\n"
                                "  TAKE grad=0 of=1 mb=0 lane=1\n"
                                "  B 0 mb=0\n"
                                "  TAKE grad=0 of=1 mb=1 lane=1\n"
                                "  B 0 mb=1\n"
                                "  OPT 0\n"
                                "rank 1:\n"
                                "  POST ch=0 mb=0 lane=0\n"
                                "  POST ch=0 mb=1 lane=0\n"
                                "  TAKE ch=0 mb=0 lane=0\n"
                                "  F 1 mb=0\n"
                                "  B 1 mb=0\n"
                                "  SEND grad=0 of=1 mb=0 lane=1\n"
                                "  TAKE ch=0 mb=1 lane=0\n"
                                "  F 1 mb=1\n"
                                "  B 1 mb=1\n"
                                "  SEND grad=0 of=1 mb=1 lane=1\n"
                                "  OPT 1\n");
}

/// The gradient of a skip goes 2 -> 1 -> 0; a transmitted weight goes out first and its gradient
/// comes back last; recompute, norm.
TEST(LowerTraining, skipsTiesAndTheEnd) {
  Plan plan = emptyPlan({0, 1, 2});
  connect(plan, 0, {1, 2});
  transmitWeight(plan, 0, {2});
  replicateWeight(plan, {1, 2});
  RunShape shape = trainingOf(1);
  shape.recompute = {false, true, false};
  shape.norm = true;
  llvm::Expected<Program> program =
      loweredCsv("0F0,0I0,0W0\n1F0,1I0,1W0\n2F0,2I0,2W0\n", plan, shape);
  ASSERT_TRUE(succeeded(program));
  EXPECT_EQ(toString(*program), "program ranks=3\n"
                                "lane 0: 0 -> 1 window=1\n"
                                "lane 1: 0 -> 2 window=1\n"
                                "lane 2: 1 -> 0 window=1 gradients\n"
                                "lane 3: 2 -> 1 window=1 gradients\n"
                                "lane 4: 0 -> 2 window=1 weights\n"
                                "lane 5: 2 -> 0 window=1 weight-gradients\n"
                                "group 0: 0 1 2\n"
                                "group 1: 1 2\n"
                                "rank 0:\n"
                                "  POST grad=0 of=1 mb=0 lane=2\n"
                                "  POST weight-grad=1 lane=5\n"
                                "  SEND weight=1 lane=4\n"
                                "  F 0 mb=0\n"
                                "  SEND ch=0 mb=0 lane=0\n"
                                "  SEND ch=0 mb=0 lane=1\n"
                                "  TAKE grad=0 of=1 mb=0 lane=2\n"
                                "  I 0 mb=0\n"
                                "  W 0 mb=0\n"
                                "  TAKE weight-grad=1 lane=5\n"
                                "  NORM group=0\n"
                                "  OPT 0\n"
                                "rank 1:\n"
                                "  POST ch=0 mb=0 lane=0\n"
                                "  POST grad=0 of=2 mb=0 lane=3\n"
                                "  TAKE ch=0 mb=0 lane=0\n"
                                "  F 1 mb=0\n"
                                "  TAKE grad=0 of=2 mb=0 lane=3\n"
                                "  R 1 mb=0\n"
                                "  I 1 mb=0\n"
                                "  SEND grad=0 of=1 mb=0 lane=2\n"
                                "  W 1 mb=0\n"
                                "  TIE_REDUCE tie=0 group=1\n"
                                "  NORM group=0\n"
                                "  OPT 1\n"
                                "rank 2:\n"
                                "  POST ch=0 mb=0 lane=1\n"
                                "  POST weight=1 lane=4\n"
                                "  TAKE ch=0 mb=0 lane=1\n"
                                "  TAKE weight=1 lane=4\n"
                                "  F 2 mb=0\n"
                                "  I 2 mb=0\n"
                                "  SEND grad=0 of=2 mb=0 lane=3\n"
                                "  W 2 mb=0\n"
                                "  SEND weight-grad=1 lane=5\n"
                                "  TIE_REDUCE tie=0 group=1\n"
                                "  NORM group=0\n"
                                "  OPT 2\n");
  EXPECT_EQ(take(programFromText(toString(*program))), *program);
}

/// Two replicas of a chain: the second half of the program is the first with other ranks, and
/// a stage is reduced as soon as its last backward is done.
TEST(LowerTraining, replicasReduceEachStage) {
  RunShape shape = trainingOf(1);
  shape.replicas = 2;
  llvm::Expected<Program> program = loweredCsv("0F0,0B0\n1F0,1B0\n", chainPlan({0, 1}), shape);
  ASSERT_TRUE(succeeded(program));
  ASSERT_EQ(program->ranks.size(), 4u);
  EXPECT_EQ(program->lanes[2], (Lane{2, 3, 1, Payload::Activation}));
  EXPECT_EQ(program->groups, (std::vector<std::vector<size_t>>{{0, 2}, {1, 3}}));
  const std::string text = toString(*program);
  EXPECT_NE(text.find("rank 3:\n"
                      "  POST ch=0 mb=0 lane=2\n"
                      "  TAKE ch=0 mb=0 lane=2\n"
                      "  F 1 mb=0\n"
                      "  B 1 mb=0\n"
                      "  SEND grad=0 of=1 mb=0 lane=3\n"
                      "  REDUCE 1 group=1\n"
                      "  OPT 1\n"),
            std::string::npos)
      << text;
}

TEST(LowerTraining, refusesSchedulesThatDoNotFit) {
  const Plan plan = chainPlan({0, 1});
  const std::pair<const char *, const char *> cases[] = {
      {"0F0,0B0\n1F0\n", "schedule: 1B0 is missing"},
      {"0F0,0I0\n1F0,1B0\n", "schedule: 0W0 is missing"},
      {"0F0,0W0\n1F0,1B0\n", "schedule: 0I0 is missing"},
      {"0F0,0B0,0W0\n1F0,1B0\n", "the backward is whole (B) or in two pieces (I, W), got both"},
      {"0F0,0R0,0B0\n1F0,1B0\n", "schedule: rank 0: 0R0: stage 0 is not recomputed"},
      {"0F0,0B0,0B0\n1F0,1B0\n", "schedule: rank 0: 0B0 appears twice"},
      {"0B0,0F0\n1F0,1B0\n", "(B 0 mb=0): its forward has not run yet"},
      {"0F0,0W0,0I0\n1F0,1B0\n", "(W 0 mb=0): its input gradient has not run yet"},
  };
  for (auto [csv, message] : cases)
    EXPECT_TRUE(failedWith(loweredCsv(csv, plan, trainingOf(1)), ExitCode::Usage, message)) << csv;
  // Tables of reference/invalid that are complete: one cannot run, the other can.
  EXPECT_TRUE(failedWith(loweredCsv("0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n", plan, trainingOf(2)),
                         ExitCode::Usage, "deadlock: rank 0, op "));
  EXPECT_TRUE(succeeded(loweredCsv("0F0,0F1,0B0,0B1\n1F1,1F0,1B1,1B0\n", plan, trainingOf(2))));
}

/// One program, one edit, one finding.
TEST(CheckTraining, namesRankAndOp) {
  Plan plan = emptyPlan({0, 1});
  connect(plan, 0, {1});
  transmitWeight(plan, 0, {1});
  replicateWeight(plan, {0, 1});
  RunShape shape = trainingOf(1);
  shape.norm = true;
  shape.recompute = {true, false};
  Program good = take(loweredCsv("0F0,0I0,0W0\n1F0,1B0\n", plan, shape));
  auto find = [](Program &p, size_t rank, const char *text) {
    for (size_t i = 0; i < p.ranks[rank].size(); ++i) {
      Program one;
      one.ranks = {{p.ranks[rank][i]}};
      if (toString(one).find(text) != std::string::npos)
        return i;
    }
    throw std::runtime_error(text);
  };
  auto drop = [&](size_t rank, const char *text) {
    Program p = good;
    p.ranks[rank].erase(p.ranks[rank].begin() + static_cast<long>(find(p, rank, text)));
    return p;
  };
  auto first = [&](size_t rank, const char *text) {
    Program p = drop(rank, text);
    p.ranks[rank].insert(p.ranks[rank].begin(), good.ranks[rank][find(good, rank, text)]);
    return p;
  };
  const std::pair<Program, const char *> cases[] = {
      {drop(0, "I 0"), "(W 0 mb=0): its input gradient has not run yet"},
      {drop(0, "W 0"), "(TIE_REDUCE tie=0 group=0): stage 0 has backwards left"},
      {drop(0, "R 0"), "(I 0 mb=0): its forward has not been recomputed yet"},
      {first(0, "R 0"), "is not between its forward and its backward"},
      {first(0, "I 0"), "rank 0, op 0 (I 0 mb=0): its forward has not run yet"},
      {drop(0, "TAKE grad=0"), "(I 0 mb=0): the gradient of channel 0 is not there yet"},
      {first(1, "SEND grad=0"), "stage 1 has not made it yet"},
      {drop(1, "TAKE weight=1"), "(F 1 mb=0): weight w1 (channel 1) is not there yet"},
      {first(1, "SEND weight-grad=1"), "stage 1 has not finished it yet"},
      {drop(0, "TAKE weight-grad=1"),
       "(NORM group=0): the gradient of channel 1 has not returned from rank 1 yet"},
      {drop(0, "TIE_REDUCE"), "(NORM group=0): tie 0 has not been summed yet"},
      {drop(0, "NORM"), "(OPT 0): the norm is not known yet"},
      {drop(1, "OPT"), "rank 1: OPT 1 is missing"},
      {drop(1, "SEND weight-grad=1"), "rank 0 takes weight-grad=1, which rank 1 never sends"},
  };
  ASSERT_TRUE(succeeded(check(good, plan, shape)));
  for (const auto &[program, message] : cases)
    EXPECT_TRUE(failedWith(check(program, plan, shape), ExitCode::BadArtifact, message)) << message;
  Program order = good;
  const size_t norm = find(order, 1, "NORM");
  order.groups.push_back({0, 1});
  order.ranks[1][norm].lane = 1;
  EXPECT_TRUE(failedWith(check(order, plan, shape), ExitCode::BadArtifact,
                         "group 0: collective 1: rank 0 runs NORM group=0, but rank 1 runs nothing "
                         "more"));
}

/// Edits of the text of two replicas on two ranks each, with all that can follow a backward.
TEST(CheckTraining, namesWhatDoesNotBelong) {
  Plan plan = emptyPlan({0, 1});
  connect(plan, 0, {1});
  connect(plan, 0, {1});
  plan.channels[1].type = "int";
  transmitWeight(plan, 0, {1});
  replicateWeight(plan, {0, 1});
  RunShape shape = trainingOf(2);
  shape.replicas = 2;
  shape.norm = true;
  const std::string good =
      toString(take(loweredCsv("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n", plan, shape)));
  struct Edit {
    const char *from, *to, *message;
  };
  // Groups 0 and 1 are the two replicas; 2 and 3 join rank 0 with 2 and rank 1 with 3.
  const Edit edits[] = {
      {"  B 0 mb=0\n", "  B 0 mb=0\n  B 0 mb=0\n", "(B 0 mb=0): its backward has run already"},
      {"  OPT 0\n", "  OPT 0\n  OPT 0\n", "(OPT 0): runs a second time"},
      {"  OPT 0\n", "  OPT 1\n", "(OPT 1): the stage is not on this rank"},
      {"  NORM group=0\n", "  NORM group=9\n", "(NORM group=9): there are 4 groups"},
      {"  NORM group=0\n", "  NORM group=2\n",
       "(NORM group=2): expected a group of 2 ranks from rank 0 on, got other ranks"},
      {"  NORM group=0\n", "  NORM group=0\n  NORM group=0\n",
       "(NORM group=0): runs a second time"},
      {"  NORM group=0\n", "", "(OPT 0): the norm is not known yet"},
      {"  TIE_REDUCE tie=0 ", "  TIE_REDUCE tie=4 ", "the plan sums no tie 4"},
      {"  REDUCE 0 group=2\n", "  REDUCE 1 group=2\n", "the stage is not on this rank"},
      {"  REDUCE 0 group=2\n", "  REDUCE 0 group=2\n  REDUCE 0 group=2\n",
       "(REDUCE 0 group=2): runs a second time"},
      {"  REDUCE 0 group=2\n", "", "(NORM group=0): stage 0 has not been reduced yet"},
      {"  SEND weight=2 lane=2\n", "  SEND weight=2 lane=0\n", "the lane carries other messages"},
      {"  SEND weight=2 lane=2\n", "  SEND weight=0 lane=2\n", "the plan has no weight channel 0"},
      {"  SEND grad=0 of=1 mb=0 ", "  SEND grad=1 of=1 mb=0 ", "the channel has no gradient"},
      {"  SEND grad=0 of=1 mb=0 ", "  SEND grad=0 of=0 mb=0 ",
       "the channel does not go from rank 1 to rank 0"},
      {"lane 0: 0 -> 1 ", "lane 0: 0 -> 3 ", "lane 0: ranks 0 and 3 are in different replicas"},
      {"group 0: 0 1\n", "group 0: 1 0\n", "group 0: expected ranks below 4, ascending"},
      {"group 0: 0 1\n", "group 0:\n", "group 0: expected ranks below 4, ascending"},
  };
  for (const Edit &edit : edits) {
    std::string text = good;
    const size_t at = text.find(edit.from);
    ASSERT_NE(at, std::string::npos) << edit.from << good;
    text.replace(at, std::strlen(edit.from), edit.to);
    EXPECT_TRUE(failedWith(check(take(programFromText(text)), plan, shape), ExitCode::BadArtifact,
                           edit.message))
        << edit.from;
  }
  const Program program = take(programFromText(good));
  auto refused = [&](const RunShape &other, const char *message) {
    return failedWith(check(program, plan, other), ExitCode::BadArtifact, message);
  };
  RunShape other = shape;
  other.replicas = 3;
  EXPECT_TRUE(refused(other, "expected 6 ranks (3 replicas of the plan's 2), got 4"));
  other = shape;
  other.norm = false;
  EXPECT_TRUE(refused(other, "(NORM group=0): is not asked for"));
  other = shape;
  other.optimizer = false;
  EXPECT_TRUE(refused(other, "(OPT 0): is not asked for"));
  other = shape;
  other.train = false;
  EXPECT_TRUE(refused(other, "rank 0, op "));
  // Without an optimizer nothing reads what the end leaves: it is asked for all the same.
  other = shape;
  other.optimizer = false;
  std::string text = toString(take(loweredCsv("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n", plan, other)));
  const std::string norm = "  NORM group=0\n";
  text.erase(text.find(norm), norm.size());
  EXPECT_TRUE(failedWith(check(take(programFromText(text)), plan, other), ExitCode::BadArtifact,
                         "rank 0: NORM is missing"));
}

/// The optimizer is not asked for, and a tie is never summed.
TEST(CheckTraining, namesWhatIsNotFinalAtTheEnd) {
  Plan plan = emptyPlan({0, 0});
  connect(plan, 0, {1});
  replicateWeight(plan, {0, 1});
  RunShape shape = trainingOf(1);
  shape.optimizer = false;
  Program program = take(loweredCsv("0F0,1F0,1B0,0B0\n", plan, shape));
  program.ranks[0].pop_back();
  EXPECT_TRUE(failedWith(check(program, plan, shape), ExitCode::BadArtifact,
                         "program: rank 0: at the end tie 0 has not been summed yet"));
}

/// Two collectives of two groups in opposite orders: every group agrees, and still they wait.
TEST(CheckTraining, namesACycleOfCollectives) {
  Plan plan = emptyPlan({0, 1});
  connect(plan, 0, {1});
  replicateWeight(plan, {0, 1});
  replicateWeight(plan, {0, 1});
  const RunShape shape = trainingOf(1);
  Program program = take(loweredCsv("0F0,0B0\n1F0,1B0\n", plan, shape));
  program.groups.push_back({0, 1});
  for (std::vector<Op> &ops : program.ranks)
    for (Op &op : ops)
      if (op.kind == OpKind::TieReduce)
        op.lane = op.tie();
  ASSERT_TRUE(succeeded(check(program, plan, shape)));
  std::vector<Op> &ops = program.ranks[1];
  std::swap(ops[ops.size() - 2], ops[ops.size() - 3]);
  EXPECT_TRUE(failedWith(check(program, plan, shape), ExitCode::BadArtifact,
                         "deadlock: rank 0, op 5 (TIE_REDUCE tie=0 group=0) waits for rank 1, op 5 "
                         "(TIE_REDUCE tie=1 group=1) waits for rank 0"));
}

TEST(CheckTraining, randomTrainingsRunAndRoundTrip) {
  std::mt19937 random(11);
  for (int i = 0; i < 400; ++i) {
    const Plan plan = randomTrainingPlan(random);
    const RunShape shape = randomShape(random, plan);
    llvm::Expected<Program> program = lower(randomSchedule(random, plan, shape), plan, shape);
    ASSERT_TRUE(succeeded(program));
    const Outcome outcome = execute(*program, plan, shape);
    ASSERT_EQ(outcome.verdict, Verdict::Runs) << outcome.why << "\n" << toString(*program);
    EXPECT_EQ(take(programFromText(toString(*program))), *program);
  }
}

/// 20,000 by bench-programs; so many here that a rule which only one of the two knows is found.
TEST(CheckTraining, judgesMutantsAsAnExecutorDoes) {
  const MutantCount count = countMutants(
      3000, 5, [](const Program &program, const Plan &plan, const RunShape &shape, bool &valid) {
        const Outcome outcome = execute(program, plan, shape);
        llvm::Error error = check(program, plan, shape);
        valid = !error;
        const std::string said = error ? describe(std::move(error)).message : "";
        return said.empty() == (outcome.verdict == Verdict::Runs)
                   ? std::string()
                   : fmt::format("checker: \"{}\", executor: {} {}\n{}", said,
                                 toString(outcome.verdict), outcome.why, toString(program));
      });
  EXPECT_EQ(count.difference, "");
  EXPECT_GT(count.valid * 10, count.mutants * 3);
  EXPECT_LT(count.valid * 10, count.mutants * 7);
}

/// Any number of a program's text may be another: whatever the checker accepts runs, and nothing
/// crashes it.
TEST(CheckTraining, damagedNumbersAreNeverWronglyAccepted) {
  std::mt19937 random(23);
  size_t parsed = 0, accepted = 0;
  for (int i = 0; i < 60; ++i) {
    const Plan plan = randomTrainingPlan(random);
    const RunShape shape = randomShape(random, plan);
    const std::string text =
        toString(take(lower(randomSchedule(random, plan, shape), plan, shape)));
    for (int k = 0; k < 60; ++k) {
      std::string damaged = text;
      const size_t at = damaged.find_first_of("0123456789", below(random, damaged.size()));
      if (at == std::string::npos)
        continue;
      damaged[at] = static_cast<char>('0' + below(random, 10));
      llvm::Expected<Program> program = programFromText(damaged);
      if (!program) {
        llvm::consumeError(program.takeError());
        continue;
      }
      ++parsed;
      if (llvm::Error error = check(*program, plan, shape)) {
        llvm::consumeError(std::move(error));
        continue;
      }
      ++accepted;
      const Outcome outcome = execute(*program, plan, shape);
      EXPECT_EQ(outcome.verdict, Verdict::Runs) << outcome.why << "\n" << damaged;
    }
  }
  EXPECT_GT(parsed, 2000u);
  EXPECT_GT(accepted, 100u); // the number that was there, or a longer window
}

} // namespace
} // namespace pipec
