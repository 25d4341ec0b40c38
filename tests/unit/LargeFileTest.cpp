#include "ir/support/LargeFile.h"

#include "tests/unit/TempDir.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <fstream>
#include <sstream>

namespace pipec {
namespace {

std::string contentOf(const std::string &path) {
  std::ostringstream read;
  read << std::ifstream(path, std::ios::binary).rdbuf();
  return read.str();
}

/// Every byte depends on its place, so that buffers in another order are other bytes.
std::string bytesOf(size_t n) {
  std::string text(n, '\0');
  uint32_t state = 7;
  for (char &c : text)
    c = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  return text;
}

TEST(LargeFileTest, writesAllBytesPastTheCacheAndThroughIt) {
  TempDir dir;
  const std::string text = bytesOf((size_t(19) << 20) + 777);
  for (bool pastCache : {true, false})
    for (size_t n : {size_t(0), size_t(1), size_t(2) << 20, size_t(8) << 20, text.size()}) {
      const std::string path = dir.path("file");
      NewFile file(path);
      {
        LargeFile large(file, pastCache);
        llvm::StringRef left = llvm::StringRef(text).take_front(n);
        for (size_t step = 1; !left.empty(); step = step * 3 + 1) {
          large.write(left.take_front(step));
          left = left.drop_front(std::min(left.size(), step));
        }
        large.finish();
      }
      file.publish();
      EXPECT_EQ(file.error(), 0);
      EXPECT_TRUE(contentOf(path) == text.substr(0, n)) << pastCache << " " << n;
    }
}

TEST(LargeFileTest, whatCannotBeWrittenIsTheFilesError) {
  TempDir dir;
  NewFile absent(dir.path("absent/file"));
  LargeFile large(absent, /*pastCache=*/true);
  large.write(bytesOf(size_t(5) << 20));
  large.finish();
  EXPECT_EQ(absent.error(), ENOENT);
  NewFile full("/dev/full");
  LargeFile device(full, /*pastCache=*/true); // stays as it is: not a file
  device.write(bytesOf(size_t(5) << 20));
  device.finish();
  EXPECT_EQ(full.error(), ENOSPC);
}

TEST(LargeFileTest, writesThroughTheCacheWhatTheDiskRefuses) {
  TempDir dir;
  const std::string path = dir.path("file"), text = bytesOf(10000);
  NewFile file(path);
  file.goPastCache();
  file.write(text.data() + 1, 4999); // neither memory nor size are what a disk takes
  file.write(text.data() + 5000, 5000);
  file.publish();
  EXPECT_EQ(file.error(), 0);
  EXPECT_TRUE(contentOf(path) == text.substr(1));
}

} // namespace
} // namespace pipec
