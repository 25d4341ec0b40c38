// What a terminal says while a compile runs.
#include "tools/cli/ProgressLine.h"

#include <gtest/gtest.h>

namespace pipec {
namespace {

TEST(ProgressLine, SaysWhatRunsAndHowFarItIs) {
  const int64_t second = 1'000'000'000;
  EXPECT_EQ(progressText({"cutting", "", 0, 0, -1}), "cutting");
  EXPECT_EQ(progressText({"running the stages", "runs", 3, 7, 11 * second + 1}),
            "running the stages: 3 of 7 runs, about 12 s left");
  EXPECT_EQ(progressText({"running the source", "runs", 3, 0, -1}), "running the source: 3 runs");
  EXPECT_EQ(progressText({"timing", "", 0, 0, 0}), "timing, about 1 s left");
  EXPECT_EQ(progressText({"timing", "", 0, 0, 119 * second}), "timing, about 119 s left");
  EXPECT_EQ(progressText({"timing", "", 0, 0, 150 * second}), "timing, about 3 min left");
}

} // namespace
} // namespace pipec
