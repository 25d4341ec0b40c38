// Gathering over groups of threads: order, one call after the other, aborts.
#include "runtime/transport/InProcessCollectives.h"
#include "tests/support/Matchers.h"

#include <gtest/gtest.h>

#include <thread>

namespace pipec {
namespace {

std::vector<std::shared_ptr<Device>> cpus(size_t ranks) {
  std::vector<std::shared_ptr<Device>> devices;
  for (size_t rank = 0; rank < ranks; ++rank)
    devices.push_back(take(makeDevice("cpu")));
  return devices;
}

TEST(Collectives, EveryMemberGetsAllValuesInTheOrderOfRanks) {
  constexpr int kCalls = 500;
  const std::vector<size_t> members = {1, 4, 6};
  const std::unique_ptr<Collectives> all = makeInProcessCollectives({{0, 9}, members}, cpus(10));
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (size_t rank : members)
    threads.emplace_back([&, rank] {
      for (int call = 0; call < kCalls; ++call) {
        const std::vector<c10::IValue> values =
            take(all->gather(1, rank, static_cast<int64_t>(100 * call + rank)));
        bool good = values.size() == members.size();
        for (size_t i = 0; good && i < values.size(); ++i)
          good = values[i].toInt() == static_cast<int64_t>(100 * call + members[i]);
        right += good;
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(right, kCalls * 3);
}

TEST(Collectives, AnAbortEndsAWait) {
  const std::unique_ptr<Collectives> all = makeInProcessCollectives({{0, 1}}, cpus(2));
  ErrorText got{ExitCode::Success, "", ""};
  std::thread waiting([&] { got = errorOf(all->gather(0, 0, int64_t(1))); });
  all->abort({ExitCode::OutOfMemory, "rank 1 has no memory", ""});
  waiting.join();
  EXPECT_EQ(got.code, ExitCode::OutOfMemory);
  EXPECT_EQ(errorOf(all->gather(0, 1, int64_t(1))).message, "rank 1 has no memory");
  all->reset();
  std::thread again([&] { EXPECT_EQ(take(all->gather(0, 0, int64_t(5)))[1].toInt(), 6); });
  EXPECT_EQ(take(all->gather(0, 1, int64_t(6)))[0].toInt(), 5);
  again.join();
}

} // namespace
} // namespace pipec
