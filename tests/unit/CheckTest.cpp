// Our own assert, in builds with checks and without.
#include "ir/support/Check.h"

#include <gtest/gtest.h>

namespace pipec {
namespace {

TEST(Check, SaysWhereAndWhy) {
  PIPEC_ASSERT(1 + 1 == 2, "numbers are what they were");
  bool evaluated = false;
  const auto isFalse = [&] {
    evaluated = true;
    return false;
  };
#ifdef PIPEC_CHECKS
  EXPECT_DEATH(PIPEC_ASSERT(isFalse(), "it never is"),
               "CheckTest.cpp:[0-9]+: isFalse\\(\\): it never is");
#else
  PIPEC_ASSERT(isFalse(), "it never is");
#endif
  EXPECT_FALSE(evaluated); // the dying process is another one
}

} // namespace
} // namespace pipec
