#include "ir/support/StreamDigest.h"

#include "ir/support/Sha256.h"
#include "llvm/ADT/Twine.h"

#include <gtest/gtest.h>

#include <future>
#include <new>

namespace pipec {
namespace {

std::string someBytes(size_t n) {
  std::string text(n, '\0');
  uint32_t state = 1;
  for (char &c : text)
    c = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  return text;
}

std::string notAsked() {
  ADD_FAILURE() << "the digest was computed before";
  return "";
}

TEST(StreamDigestTest, digestsTheWholeAndWhatIsStable) {
  auto stable = std::make_shared<StableBytes>();
  auto owner = std::make_shared<std::string>(someBytes(300000));
  const llvm::StringRef weight = llvm::StringRef(*owner).take_front(200000);
  stable->add(weight, owner);
  EXPECT_TRUE(stable->has(weight));
  EXPECT_FALSE(stable->has(*owner));
  StreamDigest digest(stable);
  std::string whole;
  auto append = [&](llvm::StringRef bytes) {
    digest.append(bytes);
    whole += bytes;
  };
  append("head");
  append(weight);
  append(""); // nothing
  {
    std::string large = someBytes(150000); // goes away, and so is hashed at once
    append(large);
    std::fill(large.begin(), large.end(), 'x');
  }
  append(weight); // once more: its digest is known
  append("tail");
  EXPECT_EQ(digest.finish(), sha256Hex(whole));
  EXPECT_FALSE(stable->digestIfFirst(weight, notAsked));
  EXPECT_EQ(stable->digestOf(weight, notAsked), sha256Hex(weight));
}

TEST(StreamDigestTest, leavesADigestToWhoHasBegun) {
  auto stable = std::make_shared<StableBytes>();
  auto owner = std::make_shared<std::string>(someBytes(100000));
  stable->add(*owner, owner);
  EXPECT_FALSE(stable->digestIfFirst(llvm::StringRef(*owner).drop_front(), notAsked)); // another
  EXPECT_TRUE(stable->digestIfFirst(*owner, [] { return std::string("ours"); }));
  StreamDigest digest(stable);
  digest.append(*owner);
  EXPECT_EQ(digest.finish(), sha256Hex(*owner));
  EXPECT_EQ(stable->digestOf(*owner, notAsked), "ours");
}

TEST(StreamDigestTest, endsItsThreadWithoutFinish) {
  auto stable = std::make_shared<StableBytes>();
  {
    StreamDigest digest(stable);
    digest.append("head");
  }
  EXPECT_EQ(stable.use_count(), 1);
}

TEST(StreamDigestTest, alsoPassesTheBytesOn) {
  auto stable = std::make_shared<StableBytes>();
  auto owner = std::make_shared<std::string>(someBytes(700000));
  stable->add(*owner, owner);
  std::string got;
  StreamDigest digest(stable, [&](llvm::StringRef bytes) { got += bytes; });
  for (const char *text : {"head", "tail"}) {
    digest.append(text);
    digest.append(*owner);
  }
  EXPECT_EQ(digest.finish(), sha256Hex("head" + *owner + "tail" + *owner));
  EXPECT_TRUE(got == "head" + *owner + "tail" + *owner);
  EXPECT_EQ(stable->digestOf(*owner, notAsked), sha256Hex(*owner));
  StreamDigest failing(stable, [](llvm::StringRef) { throw std::bad_alloc(); });
  failing.append("bytes");
  EXPECT_THROW(failing.finish(), std::bad_alloc);
}

TEST(StableBytesTest, knowsWhereItWasWritten) {
  StableBytes stable;
  auto owner = std::make_shared<std::string>("bytes");
  const llvm::StringRef bytes = *owner;
  const FileId file{1, 2}, other{1, 3};
  stable.add(bytes, owner);
  stable.add(bytes, owner);
  EXPECT_EQ(stable.totalBytes(), bytes.size());
  EXPECT_FALSE(stable.anyWritten());
  stable.noteWritten(file, 64, bytes);
  EXPECT_TRUE(stable.anyWritten());
  EXPECT_TRUE(stable.wereWritten(file, 64, bytes));
  EXPECT_FALSE(stable.wereWritten(other, 64, bytes));
  EXPECT_FALSE(stable.wereWritten(file, 65, bytes));
  EXPECT_FALSE(stable.wereWritten(file, 64, bytes.drop_back()));
  stable.noteWritten(file, 128, bytes.drop_back()); // not added: may change
  EXPECT_FALSE(stable.wereWritten(file, 128, bytes.drop_back()));
  stable.noteWritten(FileId(), 64, bytes);
  EXPECT_FALSE(stable.wereWritten(FileId(), 64, bytes));
}

TEST(StableBytesTest, whoWaitsForADigestThatFailsComputesIt) {
  auto stable = std::make_shared<StableBytes>();
  auto owner = std::make_shared<std::string>("bytes");
  stable->add(*owner, owner);
  std::promise<void> begun, gate;
  std::future<bool> first = std::async(std::launch::async, [&] {
    return stable->digestIfFirst(*owner, [&]() -> std::string {
      begun.set_value();
      gate.get_future().wait();
      throw std::bad_alloc();
    });
  });
  begun.get_future().wait();
  std::future<std::string> second = std::async(std::launch::async, [&] {
    return stable->digestOf(*owner, [] { return std::string("second"); });
  });
  EXPECT_FALSE(stable->digestIfFirst(*owner, notAsked));
  gate.set_value();
  EXPECT_THROW(first.get(), std::bad_alloc);
  EXPECT_EQ(second.get(), "second");
}

} // namespace
} // namespace pipec
