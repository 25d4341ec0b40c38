#include "runtime/RankThreads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

namespace pipec {
namespace {

using std::chrono::milliseconds;

void plain(const std::function<void()> &serve) { serve(); }
bool never() { return false; }

TEST(RankThreads, EveryRankRunsEveryJobOnItsOwnThread) {
  RankThreads threads(3, plain);
  std::vector<std::vector<std::thread::id>> ids(3);
  for (int job = 0; job < 50; ++job)
    EXPECT_TRUE(threads
                    .run(RankThreads::jobOf(
                             [&](size_t rank) { ids[rank].push_back(std::this_thread::get_id()); }),
                         never, milliseconds(0))
                    .empty());
  for (size_t rank = 0; rank < 3; ++rank) {
    ASSERT_EQ(ids[rank].size(), 50u);
    for (std::thread::id id : ids[rank])
      EXPECT_EQ(id, ids[rank][0]);
    EXPECT_NE(ids[rank][0], ids[(rank + 1) % 3][0]);
  }
}

TEST(RankThreads, WhatIsSetUpAroundHoldsForAllJobs) {
  static thread_local int setting = 0;
  std::atomic<int> undone = 0;
  {
    RankThreads threads(2, [&](const std::function<void()> &serve) {
      setting = 7;
      serve();
      ++undone;
    });
    std::atomic<int> seen = 0;
    threads.run(RankThreads::jobOf([&](size_t) { seen += setting; }), never, milliseconds(0));
    EXPECT_EQ(seen, 14);
  }
  EXPECT_EQ(undone, 2);
}

TEST(RankThreads, AStuckRankIsNamedAfterAFailure) {
  auto release = std::make_shared<std::promise<void>>();
  auto held = std::make_shared<std::shared_future<void>>(release->get_future());
  auto failed = std::make_shared<std::atomic<bool>>(false);
  RankThreads threads(3, plain);
  auto start = std::chrono::steady_clock::now();
  auto stuck = threads.run(
      RankThreads::jobOf([=](size_t rank) {
        if (rank == 1)
          held->wait();
        if (rank == 2)
          *failed = true;
      }),
      [=] { return failed->load(); }, milliseconds(50));
  EXPECT_EQ(stuck, std::vector<size_t>{1});
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  release->set_value();
}

} // namespace
} // namespace pipec
