#include "compiler/emit/StageFile.h"

#include "ir/support/Sha256.h"
#include "ir/torchfile/TorchArchive.h"
#include "tests/support/Matchers.h"
#include "tests/unit/TempDir.h"

#include <ATen/ops/empty.h>
#include <caffe2/serialize/inline_container.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <new>
#include <sstream>

namespace pipec {
namespace {

/// What LibTorch's writer writes.
void putArchive(const std::function<void(llvm::StringRef)> &take, llvm::StringRef weight) {
  caffe2::serialize::PyTorchStreamWriter writer([&](const void *bytes, size_t n) {
    take({static_cast<const char *>(bytes), n});
    return n;
  });
  writer.writeRecord("data/0", weight.data(), weight.size());
  writer.writeRecord("data/1", "", 0);
  writer.writeEndOfFile();
}

class StageFileTest : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(PastCache, StageFileTest, testing::Bool());

/// Where the archive has the weight, read back.
FilePlace placeOfWeight(const std::string &path) {
  auto archive = TorchArchive::open(path);
  if (!succeeded(archive))
    return {};
  const at::Tensor tensor = at::empty({0}, at::kByte)
                                .set_(c10::Storage(c10::Storage::use_byte_size_t(), size_t(3) << 20,
                                                   (*archive)->view("data/0")));
  return placeInFile(tensor).value();
}

TEST_P(StageFileTest, isAnArchiveOfLibTorchAndDigested) {
  TempDir dir;
  auto stable = std::make_shared<StableBytes>();
  auto weight = std::make_shared<std::string>(size_t(3) << 20, 'w');
  stable->add(*weight, weight);
  const std::string path = dir.path("stage-0.pt");
  StageFile file(path, stable, /*pastCache=*/GetParam());
  putArchive([&](llvm::StringRef bytes) { file.sink().put(bytes); }, *weight);
  EXPECT_FALSE(std::filesystem::exists(path));
  llvm::Expected<std::string> digest = file.finish();
  ASSERT_TRUE(succeeded(digest));
  std::string expected;
  putArchive([&](llvm::StringRef bytes) { expected += bytes; }, *weight);
  std::ostringstream read;
  read << std::ifstream(path, std::ios::binary).rdbuf();
  EXPECT_TRUE(read.str() == expected);
  EXPECT_EQ(*digest, sha256Hex(expected));
  EXPECT_EQ(stable->digestOf(*weight, [] { return std::string("not known"); }), sha256Hex(*weight));
  const FilePlace place = placeOfWeight(path);
  EXPECT_EQ(stable->wereWritten(place.file, place.offset, *weight), GetParam());
}

TEST(StageFileErrors, saysWhyItCannotBeWritten) {
  TempDir dir;
  const std::string path = dir.path("absent/stage-0.pt");
  StageFile file(path, std::make_shared<StableBytes>());
  putArchive([&](llvm::StringRef bytes) { file.sink().put(bytes); }, "weight");
  EXPECT_TRUE(failedWith(file.finish(), ExitCode::IO, path + ": cannot write: no such file"));
}

TEST(StageFileErrors, theSinkTakesEverythingAndRemembersWhatWentWrong) {
  int calls = 0;
  Sink sink([&](llvm::StringRef) -> llvm::Error {
    ++calls;
    throw std::bad_alloc();
  });
  putArchive([&](llvm::StringRef bytes) { sink.put(bytes); }, "weight");
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(
      failedWith(sink.takeError(), ExitCode::OutOfMemory, "writing TorchScript: out of memory"));
  EXPECT_TRUE(succeeded(sink.takeError())); // once
}

} // namespace
} // namespace pipec
