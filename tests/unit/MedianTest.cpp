#include "ir/support/Median.h"

#include <gtest/gtest.h>

namespace pipec {
namespace {

TEST(MedianTest, TheMiddleOfAnOddNumber) { EXPECT_EQ(medianOf(std::vector<int>{9, 1, 5}), 5); }

TEST(MedianTest, TheMeanOfTheMiddleTwoOfAnEvenNumber) {
  EXPECT_EQ(medianOf(std::vector<int>{9, 1, 7, 3}), 5);
  EXPECT_EQ(medianOf(std::vector<double>{2, 1}), 1.5);
}

TEST(MedianTest, ZeroOfNothing) { EXPECT_EQ(medianOf(std::vector<int>{}), 0); }

} // namespace
} // namespace pipec
