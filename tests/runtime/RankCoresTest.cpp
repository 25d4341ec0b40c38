#include "runtime/RankCores.h"

#include "runtime/Resources.h"

#include <gtest/gtest.h>

#include <latch>
#include <sched.h>
#include <thread>

namespace pipec {
namespace {

cpu_set_t allowed() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof(set), &set);
  return set;
}

void stayOn(int core) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
}

/// Where rank 1 works after it came to `core`, which rank 0 was on before.
int coreOfTheSecond(RankCores &cores, int core) {
  int found = -1;
  std::latch settled(1), over(1);
  std::thread first([&] {
    stayOn(core);
    cores.settle(0);
    settled.count_down();
    over.wait();
  });
  std::thread second([&] {
    settled.wait();
    const cpu_set_t before = allowed();
    do { // until it is there when it settles
      stayOn(core);
      ASSERT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
    } while (sched_getcpu() != core);
    cores.settle(1);
    found = sched_getcpu();
    const cpu_set_t after = allowed();
    EXPECT_TRUE(CPU_EQUAL(&before, &after)) << "where the thread may run has changed";
    over.count_down();
  });
  first.join();
  second.join();
  return found;
}

TEST(RankCoresTest, ARankLeavesACoreThatAnotherOneWorksOn) {
  if (usableCores() < 2)
    GTEST_SKIP() << "needs two cores";
  const int core = sched_getcpu();
  for (int i = 0; i < 20; ++i) {
    RankCores cores(2);
    EXPECT_NE(coreOfTheSecond(cores, core), core);
  }
}

TEST(RankCoresTest, AThreadThatMayUseOneCoreStaysOnIt) {
  const int core = sched_getcpu();
  RankCores cores(2);
  std::thread([&] {
    stayOn(core);
    const cpu_set_t before = allowed();
    cores.settle(0);
    cores.settle(1);
    EXPECT_EQ(sched_getcpu(), core);
    const cpu_set_t after = allowed();
    EXPECT_TRUE(CPU_EQUAL(&before, &after));
  }).join();
}

} // namespace
} // namespace pipec
