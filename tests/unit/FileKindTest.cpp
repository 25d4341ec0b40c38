// What a file is, from its bytes: also of bytes that only begin like something.
#include "ir/support/FileKind.h"

#include "ir/support/ZipEntries.h"

#include <gtest/gtest.h>

#include <random>

namespace pipec {
namespace {

/// A zip archive of one stored entry, as every program writes it.
std::string zipOf(const std::string &name, const std::string &bytes) {
  auto number = [](uint64_t value, size_t size) {
    std::string text;
    for (size_t i = 0; i < size; ++i)
      text += static_cast<char>(i < sizeof value ? value >> (8 * i) : 0);
    return text;
  };
  const std::string sizes = number(bytes.size(), 4) + number(bytes.size(), 4);
  const std::string local = "PK\x03\x04" + number(20, 2) + number(0, 12) + sizes +
                            number(name.size(), 2) + number(0, 2) + name + bytes;
  const std::string entry = "PK\x01\x02" + number(20, 4) + number(0, 12) + sizes +
                            number(name.size(), 2) + number(0, 16) + name;
  return local + entry + "PK\x05\x06" + number(0, 4) + number(1, 2) + number(1, 2) +
         number(entry.size(), 4) + number(local.size(), 4) + number(0, 2);
}

TEST(ZipEntries, namesAndBytes) {
  const std::string file = zipOf("archive/data.pkl", "hello");
  const std::vector<ZipEntry> entries = zipEntries(file);
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].name, "archive/data.pkl");
  EXPECT_EQ(entries[0].bytes, "hello");
  for (size_t n = 0; n < file.size(); ++n)
    EXPECT_TRUE(zipEntries(llvm::StringRef(file).take_front(n)).empty()) << n;
}

TEST(FileKind, readsContent) {
  EXPECT_EQ(kindOfFile("\x93NUMPY\x01").what, "a NumPy array (.npy)");
  EXPECT_EQ(kindOfFile(zipOf("x.npy", "\x93NUMPY")).what, "NumPy arrays (.npz)");
  EXPECT_EQ(kindOfFile(zipOf("m/archive_format", "pt2")).what, "an exported program (.pt2)");
  EXPECT_EQ(kindOfFile(zipOf("m/data.pkl", "\x80\x02"
                                           "ccollections\nOrderedDict\nq\x00."))
                .what,
            "a state dict, weights without the model");
  const std::string optimizer(
      "\x80\x02}q\x00(X\x05\x00\x00\x00state}X\x0c\x00\x00\x00param_groups]u.", 37);
  EXPECT_EQ(kindOfFile(zipOf("m/data.pkl", optimizer)).what,
            "the state of an optimizer (optimizer.state_dict()), which holds no model");
  const std::string onnx("\x08\x08\x12\x01p\x3a\x02\x12\x00\x42\x02\x10\x11", 13);
  EXPECT_EQ(kindOfFile(onnx).what, "an ONNX model");
  const std::string header = R"({"x":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})";
  EXPECT_EQ(kindOfFile(std::string(1, static_cast<char>(header.size())) + std::string(7, '\0') +
                       header + "1234")
                .what,
            "weights in the safetensors format");
  EXPECT_EQ(kindOfFile("").what, "");
  EXPECT_EQ(kindOfFile(std::string("\x01\x00\x02\xff", 4)).what, "");
}

TEST(FileKind, anyBytesAreRead) {
  std::mt19937 random(1);
  const std::vector<std::string> seeds = {
      zipOf("a/data.pkl", "\x80\x02}q\x00X\x03\x00\x00\x00"), zipOf("x.npy", "x"),
      std::string("\x08\x08\x12\x01p\x3a\x02\x12\x00\x42\x02\x10\x11", 13),
      std::string("\x80\x02\x8a\nl\xfc\x9c"
                  "F\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.\x80\x02}."),
      std::string("\x02\0\0\0\0\0\0\0{}", 10)};
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = seeds[random() % seeds.size()];
    for (int edits = 0; edits < 3; ++edits)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    bytes.resize(random() % (bytes.size() + 1));
    kindOfFile(bytes);
  }
}

} // namespace
} // namespace pipec
