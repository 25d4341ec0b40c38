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

/// Of a rank whose list is `number`: the first values of all members.
llvm::Expected<std::vector<int64_t>> gathered(Collectives &all, size_t group, size_t rank,
                                              int64_t number) {
  GatheredValues lists;
  if (llvm::Error error = all.gather(group, rank, c10::IValue(number), lists))
    return std::move(error);
  std::vector<int64_t> numbers;
  for (const std::vector<c10::IValue> &list : lists)
    numbers.push_back(list.at(0).toInt());
  return numbers;
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
        const std::vector<int64_t> values =
            take(gathered(*all, 1, rank, static_cast<int64_t>(100 * call + rank)));
        bool good = values.size() == members.size();
        for (size_t i = 0; good && i < values.size(); ++i)
          good = values[i] == static_cast<int64_t>(100 * call + members[i]);
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
  std::thread waiting([&] { got = errorOf(gathered(*all, 0, 0, 1)); });
  all->abort({ExitCode::OutOfMemory, "rank 1 has no memory", ""});
  waiting.join();
  EXPECT_EQ(got.code, ExitCode::OutOfMemory);
  EXPECT_EQ(errorOf(gathered(*all, 0, 1, 1)).message, "rank 1 has no memory");
  all->reset();
  std::thread again([&] { EXPECT_EQ(take(gathered(*all, 0, 0, 5))[1], 6); });
  EXPECT_EQ(take(gathered(*all, 0, 1, 6))[0], 5);
  again.join();
}

/// Ranks keep their lists from call to call: nothing of an earlier, longer one stays in them.
TEST(Collectives, ListsOfAnyLengthsReplaceThoseBefore) {
  const std::unique_ptr<Collectives> all = makeInProcessCollectives({{0, 1}}, cpus(2));
  auto lengths = [&](size_t rank) {
    GatheredValues lists;
    std::vector<size_t> found;
    for (const size_t length : {size_t(3), size_t(0), size_t(1)}) {
      const std::vector<c10::IValue> mine(length + rank, c10::IValue(1));
      EXPECT_TRUE(succeeded(all->gather(0, rank, mine, lists)));
      for (const std::vector<c10::IValue> &list : lists)
        found.push_back(list.size());
    }
    return found;
  };
  const std::vector<size_t> expected = {3, 4, 0, 1, 1, 2};
  std::thread other([&] { EXPECT_EQ(lengths(1), expected); });
  EXPECT_EQ(lengths(0), expected);
  other.join();
}

} // namespace
} // namespace pipec
