// Compute schedules: actions and CSV as PyTorch has them, and the forward-only generator.
#include "ir/schedule/Schedule.h"

#include "ir/schedule/ForwardOnly.h"
#include "tests/support/Matchers.h"

namespace pipec {
namespace {

TEST(Action, roundTrips) {
  for (const char *text : {"2F0", "1I3", "2B0", "0W1", "10R25"}) {
    llvm::Expected<Action> action = parseAction(text);
    ASSERT_TRUE(succeeded(action)) << text;
    EXPECT_EQ(toString(*action), text);
  }
  EXPECT_EQ(llvm::cantFail(parseAction("1I3")), (Action{ActionKind::InputGrad, 1, 3}));
}

TEST(Action, refusesOtherText) {
  for (const char *text : {"", "F0", "2F", "2X0", "2f0", "02F0", "2F00", "2F0 ", "2F-1", "2F0F0",
                           "1UNSHARD2", "3SEND_F", "(1F1;2B0)OVERLAP_F_B", "01048576F0", "-1F0"})
    EXPECT_TRUE(failedWith(parseAction(text), ExitCode::BadArtifact,
                           "expected stage, one of F B I W R, micro-batch"))
        << text;
}

/// Sums and products of them are formed before anything else is known of a table.
TEST(Action, refusesNumbersBeyondTheBound) {
  EXPECT_TRUE(succeeded(parseAction("1048575F1048575")));
  for (const char *text :
       {"1048576F0", "0F1048576", "0B9223372036854775807", "9223372036854775807I0",
        "2F9223372036854775808", "99999999999999999999W0", "0RECV_F4294967296", "1048576UNSHARD"})
    EXPECT_TRUE(failedWith(parseAction(text), ExitCode::BadArtifact,
                           std::string("action \"") + text +
                               "\": expected a stage and a micro-batch below 1048576"));
  EXPECT_TRUE(failedWith(scheduleFromCsv("0F0,0B0,0F9223372036854775807\n"), ExitCode::BadArtifact,
                         "schedule: line 1, column 3: action \"0F9223372036854775807\": expected"));
  EXPECT_TRUE(failedWith(scheduleFromCsv(std::string(1048577, '\n')), ExitCode::BadArtifact,
                         "schedule: expected at most 1048576 ranks, got more lines"));
}

TEST(Action, refusesThoseOfNewerReleasesByName) {
  EXPECT_TRUE(failedWith(parseAction("0WAIT_SEND2"), ExitCode::BadArtifact,
                         "action \"0WAIT_SEND2\": WAIT_SEND is an action of a newer PyTorch"));
  EXPECT_TRUE(failedWith(scheduleFromCsv("0F0,BATCH_P2P\n"), ExitCode::BadArtifact,
                         "column 2: action \"BATCH_P2P\": BATCH_P2P is an action of a newer"));
}

TEST(ScheduleCsv, readsWhatPythonsCsvModuleWrites) {
  llvm::Expected<Schedule> schedule = scheduleFromCsv("0F0,0F1,,0B0,,0B1\r\n,1F0,1B0,1F1,1B1,\r\n");
  ASSERT_TRUE(succeeded(schedule));
  ASSERT_EQ(schedule->ranks.size(), 2u);
  EXPECT_EQ(toCsv(*schedule), "0F0,0F1,,0B0,,0B1\n,1F0,1B0,1F1,1B1,\n");
  schedule->ranks[1].pop_back(); // other actions, other cells
  EXPECT_EQ(toCsv(*schedule), "0F0,0F1,,0B0,,0B1\n1F0,1B0,1F1\n");
}

TEST(ScheduleCsv, roundTrips) {
  for (const char *text : {"0F0\n", "0F0,0F1\n1F0,1F1\n", "0F0\n\n2F0\n", ",,0F0\n,,\n1F0,,\n",
                           "0F0,,(0F1;1B0)OVERLAP_F_B,,\n"})
    EXPECT_EQ(toCsv(llvm::cantFail(scheduleFromCsv(text))), text);
  EXPECT_EQ(llvm::cantFail(scheduleFromCsv("0F0, 0F1")).ranks[0].size(), 2u);
}

TEST(ScheduleCsv, namesTheBadCell) {
  EXPECT_TRUE(failedWith(scheduleFromCsv("0F0,0F1\n1F0,,oops\n"), ExitCode::BadArtifact,
                         "schedule: line 2, column 3: action \"oops\""));
  EXPECT_TRUE(failedWith(scheduleFromCsv(""), ExitCode::BadArtifact, "got an empty file"));
  EXPECT_TRUE(
      failedWith(scheduleFromCsv(std::string("0F0\0", 4)), ExitCode::BadArtifact, "column 1"));
  EXPECT_TRUE(failedWith(scheduleFromCsv("\"0F0\"\n"), ExitCode::BadArtifact, "column 1"));
}

TEST(ForwardOnly, onePerRank) {
  EXPECT_EQ(toCsv(forwardOnly({3, 2, {0, 1, 2}, 3})), "0F0,0F1\n1F0,1F1\n2F0,2F1\n");
}

TEST(ForwardOnly, neighboursOnARankGoDepthFirst) {
  EXPECT_EQ(toCsv(forwardOnly({4, 2, {0, 0, 1, 1}, 2})), "0F0,1F0,0F1,1F1\n2F0,3F0,2F1,3F1\n");
  EXPECT_EQ(toCsv(forwardOnly({3, 1, {0, 1, 1}, 2})), "0F0\n1F0,2F0\n");
}

TEST(ForwardOnly, aLoopDoesNotWaitForWhatIsOnItsWay) {
  EXPECT_EQ(toCsv(forwardOnly({4, 2, {0, 1, 0, 1}, 2})), "0F0,0F1,2F0,2F1\n1F0,1F1,3F0,3F1\n");
  EXPECT_EQ(toCsv(forwardOnly({3, 0, {0, 1, 1}, 2})), "\n\n");
}

} // namespace
} // namespace pipec
