#include "ir/support/PieceThread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <new>
#include <thread>
#include <vector>

namespace pipec {
namespace {

TEST(PieceThreadTest, worksOnAllBytesInOrder) {
  std::string got;
  std::vector<size_t> sizes;
  PieceThread thread([&](llvm::StringRef bytes) {
    got += bytes;
    sizes.push_back(bytes.size());
  });
  std::string expected;
  const std::string stable = "stable";
  for (int i = 0; i < 1000; ++i) {
    thread.append(std::to_string(i));
    expected += std::to_string(i);
  }
  thread.appendStable(stable);
  thread.appendStable("");
  expected += stable;
  {
    std::string large(100000, 'l'); // goes away, and so is worked on at once
    thread.append(large);
    expected += large;
    std::fill(large.begin(), large.end(), 'x');
  }
  thread.append("tail");
  expected += "tail";
  thread.finish();
  EXPECT_EQ(got, expected);
  EXPECT_EQ(sizes.size(), 4u); // the small ones joined, a stable one for itself
}

TEST(PieceThreadTest, finishThrowsWhatTheWorkThrowsAndAppendDoesNotWait) {
  int calls = 0;
  PieceThread thread([&](llvm::StringRef) {
    ++calls;
    throw std::bad_alloc();
  });
  const std::string large(200000, 'l');
  for (int i = 0; i < 1000; ++i) { // more than may wait
    thread.append(large);
    thread.appendStable(large);
  }
  EXPECT_THROW(thread.finish(), std::bad_alloc);
  EXPECT_EQ(calls, 1);
}

TEST(PieceThreadTest, endsWithoutFinish) {
  int calls = 0;
  {
    PieceThread thread([&](llvm::StringRef) { ++calls; });
    thread.appendStable("bytes");
  }
  EXPECT_EQ(calls, 1);
  PieceThread failing([](llvm::StringRef) { throw std::bad_alloc(); });
  failing.appendStable("bytes");
}

TEST(PieceThreadTest, whoIsFasterThanTheWorkWaits) {
  constexpr size_t kPieces = 64 << 10, kMost = 8 << 20; // bytes
  const std::string piece(1 << 10, 'p');
  std::promise<void> gate;
  size_t worked = 0;
  std::atomic<size_t> appended = 0;
  PieceThread thread([&, open = gate.get_future().share()](llvm::StringRef bytes) {
    open.wait();
    worked += bytes.size();
  });
  std::thread caller([&] {
    for (size_t i = 0; i < kPieces; ++i) {
      thread.append(piece);
      appended += piece.size();
    }
  });
  // Until it stands still.
  for (size_t before = 1; before != appended;) {
    before = appended;
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  EXPECT_LE(appended, kMost);
  gate.set_value();
  caller.join();
  thread.finish();
  EXPECT_EQ(worked, kPieces * piece.size());
}

} // namespace
} // namespace pipec
