// What a terminal says while a compile runs.
#include "tools/cli/ProgressLine.h"

#include <gtest/gtest.h>

namespace pipec {
namespace {

TEST(ProgressLine, SaysWhatRunsAndHowFarItIs) {
  const int64_t second = 1'000'000'000;
  EXPECT_EQ(progressText({"cutting", "", 0, 0, -1}, 79), "cutting");
  EXPECT_EQ(progressText({"running the stages", "runs", 3, 7, 11 * second + 1}, 79),
            "[########............] running the stages: 3 of 7 runs, about 12 s left");
  EXPECT_EQ(progressText({"running the source", "runs", 3, 0, -1}, 79),
            "running the source: 3 runs");
  EXPECT_EQ(progressText({"timing", "", 0, 0, 0}, 79), "timing, about 1 s left");
  EXPECT_EQ(progressText({"timing", "", 0, 0, 119 * second}, 79), "timing, about 119 s left");
  EXPECT_EQ(progressText({"timing", "", 0, 0, 150 * second}, 79), "timing, about 3 min left");
}

TEST(ProgressLine, HasABarWhereTheTerminalIsWideEnough) {
  const auto at = [](size_t done, size_t columns) {
    return progressText({"training", "steps", done, 60, -1}, columns);
  };
  EXPECT_EQ(at(0, 79), "[....................] training: 0 of 60 steps");
  EXPECT_EQ(at(59, 79), "[###################.] training: 59 of 60 steps");
  EXPECT_EQ(at(60, 79), "[####################] training: 60 of 60 steps");
  EXPECT_EQ(at(61, 79), "[####################] training: 61 of 60 steps");
  EXPECT_EQ(at(6, 46), "[##..................] training: 6 of 60 steps") << "46 columns";
  EXPECT_EQ(at(6, 45), "training: 6 of 60 steps");
  EXPECT_EQ(at(6, 8), "training");
}

} // namespace
} // namespace pipec
