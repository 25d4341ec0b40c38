// Programs as PyTorch's tables with sends and receives.
#include "ir/schedule/TorchComms.h"

#include "ir/schedule/Generators.h"
#include "ir/schedule/Lower.h"
#include "ir/schedule/TableCheck.h"
#include "tests/support/Matchers.h"
#include "tests/support/RandomPrograms.h"

namespace pipec {
namespace {

/// Two channels between two stages are one message of PyTorch's.
TEST(TorchComms, writesSendsAndReceives) {
  Plan plan = chainPlan({0, 1});
  connect(plan, 0, {1});
  RunShape shape = trainingOf(2);
  shape.norm = true;
  const Program program = take(lower(
      llvm::cantFail(scheduleFromCsv("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1I1,1W1\n")), plan, shape));
  EXPECT_EQ(toCsv(take(toTorchComms(program, plan))),
            "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0REDUCE_GRAD\n"
            "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1I1,1SEND_B1,1W1,1REDUCE_GRAD\n");
}

/// Every generator's program, in both directions: the table holds together without warnings.
TEST(TorchComms, tablesHoldTogether) {
  for (const Generator &generator : generators()) {
    if (generator.name == "forward-only")
      continue;
    ScheduleRequest request;
    request.ranks = 4;
    request.chunks = generator.leastChunks;
    request.microBatches = 8;
    request.costs = equalCosts({10, 10, 10, 1, 0}, 0, 4, request.chunks);
    const Plan plan = chainPlan(rankOfStages(generator.placement, 4, request.chunks));
    const Program program =
        take(lower(take(makeSchedule(generator, request)), plan, trainingOf(8)));
    const Schedule table = take(toTorchComms(program, plan));
    std::vector<std::string> warnings;
    EXPECT_TRUE(succeeded(checkTable(table, &warnings))) << generator.name.str();
    EXPECT_TRUE(warnings.empty()) << warnings.front();
    EXPECT_EQ(take(scheduleFromCsv(toCsv(table))), table);
  }
}

TEST(TorchComms, refusesWhatPyTorchHasNoWordFor) {
  const Schedule schedule = llvm::cantFail(scheduleFromCsv("0F0,0B0\n1F0,1B0\n2F0,2B0\n"));
  RunShape shape = trainingOf(1);
  auto exported = [&](const Plan &plan) {
    return toTorchComms(take(lower(schedule, plan, shape)), plan);
  };
  Plan skip = chainPlan({0, 1, 2}), weight = chainPlan({0, 1, 2});
  connect(skip, 0, {2});
  transmitWeight(weight, 0, {1});
  EXPECT_TRUE(failedWith(exported(skip), ExitCode::Usage,
                         "program: channel 2 (c2) goes from stage 0 to stage 2: PyTorch sends to "
                         "the next stage only"));
  EXPECT_TRUE(
      failedWith(exported(weight), ExitCode::Usage, "program: channel 2 (w2) transmits a weight"));
  shape.recompute = {false, true, false};
  EXPECT_TRUE(failedWith(exported(chainPlan({0, 1, 2})), ExitCode::Usage,
                         "program: stage 1 is recomputed"));
}

} // namespace
} // namespace pipec
