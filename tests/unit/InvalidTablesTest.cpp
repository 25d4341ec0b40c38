// Ten tiny tables, each with one mistake or none that matters, kept from a published collection of
// schedules: what must be refused is, by name, and what runs is lowered and runs.
#include "ir/schedule/Lower.h"
#include "ir/schedule/TableCheck.h"
#include "tests/support/BoundedExecutor.h"
#include "tests/support/Matchers.h"
#include "tests/support/RandomPrograms.h"

namespace pipec {
namespace {

struct Table {
  const char *name, *csv;
  const char *refusal; // part of the message; empty: it runs
  bool warns = false;
};

constexpr Table kTables[] = {
    {"backward_on_other_rank", "0F0,1B0\n1F0,0B0\n", "1B0 precedes its forward"},
    {"deadlock", "0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n", "deadlock: rank 0, op "},
    {"duplicate", "0F0,0F1,0B0,0B1\n1F0,1F0,1B0,1F1,1B1\n", "1F0 appears twice"},
    {"missing_forward", "0F0,0F1,0B0,0B1\n1F0,1B0,1B1\n", "1B1 precedes its forward"},
    {"missing_send",
     "0F0,0SEND_F0,0F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
     "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n",
     "1RECV_F1 has no 0SEND_F1 on rank 0"},
    {"ok_reordered", "0F0,0F1,0B0,0B1\n1F1,1F0,1B1,1B0\n", ""},
    {"order_mismatch_warns",
     "0F0,0F1,0SEND_F1,0SEND_F0,0RECV_B0,0B0,0RECV_B1,0B1\n"
     "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n",
     "", true},
    {"recv_after_use", "0F0,0SEND_F0,0RECV_B0,0B0\n1F0,1RECV_F0,1B0,1SEND_B0\n",
     "1F0 precedes 1RECV_F0"},
    {"split_and_whole", "0F0,0I0,0W0,0B0\n1F0,1B0\n", "got both"},
    {"w_before_i", "0F0,0W0,0I0\n1F0,1I0,1W0\n", "0W0 precedes its input gradient"},
};

/// Checked as a table, then lowered, then executed: the first that finds fault is what a user sees.
TEST(InvalidTables, areRefusedOrRun) {
  const Plan plan = chainPlan({0, 1});
  for (const Table &table : kTables) {
    SCOPED_TRACE(table.name);
    const Schedule schedule = take(scheduleFromCsv(table.csv));
    std::vector<std::string> warnings;
    llvm::Expected<TableShape> known = checkTable(schedule, &warnings);
    if (!known) {
      EXPECT_TRUE(failedWith(std::move(known), ExitCode::BadArtifact, table.refusal));
      EXPECT_STRNE(table.refusal, "");
      continue;
    }
    EXPECT_EQ(warnings.size(), table.warns ? 1u : 0u);
    const RunShape shape = trainingOf(known->microBatches);
    llvm::Expected<Program> program = lower(schedule, plan, shape);
    if (!program) {
      EXPECT_TRUE(failedWith(std::move(program), ExitCode::Usage, table.refusal));
      EXPECT_STRNE(table.refusal, "");
      continue;
    }
    EXPECT_STREQ(table.refusal, "");
    EXPECT_EQ(execute(*program, plan, shape).verdict, Verdict::Runs);
  }
}

} // namespace
} // namespace pipec
