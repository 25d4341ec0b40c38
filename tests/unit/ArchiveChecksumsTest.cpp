#include "compiler/emit/ArchiveChecksums.h"

#include "ir/support/Try.h"
#include "tests/support/Matchers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <caffe2/serialize/inline_container.h>

#include <map>
#include <vector>

namespace pipec {
namespace {

using Calls = std::vector<std::string>;

/// What LibTorch's writer writes, call by call.
Calls callsOf(bool withChecksums, const std::string &weight) {
  Calls calls;
  caffe2::serialize::PyTorchStreamWriter writer(
      [&](const void *bytes, size_t n) {
        calls.emplace_back(static_cast<const char *>(bytes), n);
        return n;
      },
      withChecksums);
  writer.writeRecord("data/0", weight.data(), weight.size());
  writer.writeRecord("empty", "", 0);
  const std::string text(5000, 't'), tail = "tail";
  writer.writeRecord("code/text", text.data(), text.size(), /*compress=*/true);
  writer.writeRecord("code/tail", tail.data(), tail.size(), /*compress=*/true);
  writer.writeRecord("code/none", "", 0, /*compress=*/true);
  writer.writeEndOfFile();
  return calls;
}

std::string joined(const Calls &calls) {
  std::string text;
  for (const std::string &call : calls)
    text += call;
  return text;
}

llvm::Expected<std::string> tryChecked(const Calls &calls) {
  std::string text;
  ArchiveChecksums checksums([&](llvm::StringRef bytes) { text += bytes; });
  for (const std::string &call : calls)
    TRY(checksums.put(call));
  TRY(checksums.finish());
  return text;
}

std::string checked(const Calls &calls) { return take(tryChecked(calls)); }

/// The text of the id and what depends on it: two checksums.
std::string withoutId(std::string archive) {
  auto blank = [&](size_t at, size_t n) { archive.replace(at, n, std::string(n, '.')); };
  const std::string name = ".data/serialization_id";
  const size_t descriptor = archive.find("PK\7\10", archive.find(name));
  blank(descriptor - 20, 24 + 4);
  blank(archive.rfind(name) - std::string("archive/").size() - 46 + 16, 4);
  return archive;
}

TEST(ArchiveChecksumsTest, areThoseOfLibTorchsWriter) {
  for (const std::string &weight :
       {std::string(), std::string("w"), std::string(100000, 'w'), std::string("PK\7\10", 4),
        std::string("PK\7\10\0\0\0\0\20\0\0\0\20\0\0\0", 16) + "and more"}) {
    const std::string archive = checked(callsOf(false, weight)),
                      own = joined(callsOf(true, weight));
    EXPECT_EQ(withoutId(archive), withoutId(own));
    EXPECT_NE(archive, joined(callsOf(false, weight)));
    EXPECT_EQ(archive, checked(callsOf(false, weight)));
  }
}

/// All that such bytes could say: no or as many bytes before them, in 32 bits and in 64.
TEST(ArchiveChecksumsTest, dataThatLooksLikeADescriptorStaysData) {
  auto weight = [](size_t size, char stored, char whole) {
    std::string bytes("PK\7\10", 4);
    bytes.resize(size, '\0');
    bytes[8] = stored;
    bytes[size == 16 ? 12 : 16] = whole;
    return bytes;
  };
  for (size_t size : {16, 24})
    for (char stored : {0, 16, 24})
      for (char whole : {0, 5, 16, 24}) {
        const std::string bytes = weight(size, stored, whole);
        EXPECT_EQ(withoutId(checked(callsOf(false, bytes))),
                  withoutId(joined(callsOf(true, bytes))));
      }
}

std::string localHeader(bool compressed) {
  std::string header("PK\3\4", 4);
  header.resize(30, '\0');
  header[6] = 8; // a descriptor follows
  header[8] = compressed ? 8 : 0;
  header[26] = 1;
  return header + "c";
}

std::string descriptorOf(char stored, char whole) {
  std::string bytes("PK\7\10", 4);
  bytes.resize(16, '\0');
  bytes[8] = stored;
  bytes[12] = whole;
  return bytes;
}

TEST(ArchiveChecksumsTest, aPartOfDeflatedDataThatLooksLikeADescriptorStaysData) {
  const std::string data = descriptorOf(5, 0);   // what came before it, and nothing in it
  const std::string block("\1\20\0\357\377", 5); // a last one, of 16 bytes as they are
  auto descriptor = [](const Calls &calls) {
    std::string last;
    ArchiveChecksums checksums([&](llvm::StringRef bytes) { last = bytes.str(); });
    for (const std::string &call : calls)
      EXPECT_TRUE(succeeded(checksums.put(call)));
    return last.substr(0, 8);
  };
  const std::string written = descriptor({localHeader(true), block, data, descriptorOf(21, 16)});
  EXPECT_EQ(written, descriptor({localHeader(false), data, descriptorOf(16, 16)}));
  EXPECT_EQ(written.substr(0, 4), data.substr(0, 4));
  EXPECT_NE(written.substr(4), std::string(4, '\0'));
}

TEST(ArchiveChecksumsTest, theReaderOfLibTorchReadsTheRecords) {
  const std::string weight(100000, 'w');
  const std::string archive = checked(callsOf(false, weight));
  std::istringstream stream(archive);
  caffe2::serialize::PyTorchStreamReader reader(&stream);
  auto [data, size] = reader.getRecord("data/0");
  EXPECT_EQ(std::string(static_cast<const char *>(data.get()), size), weight);
  EXPECT_EQ(reader.getRecordSize("code/text"), 5000u);
}

TEST(ArchiveChecksumsTest, idsOfOtherBytesAreOthers) {
  auto id = [](const std::string &weight) {
    std::istringstream stream(checked(callsOf(false, weight)));
    return caffe2::serialize::PyTorchStreamReader(&stream).serializationId();
  };
  EXPECT_EQ(id("a").size(), 40u);
  EXPECT_EQ(id("a"), id("a"));
  EXPECT_NE(id("a"), id("b"));
  EXPECT_EQ(id("a").substr(0, 20), id("b").substr(0, 20));
}

/// Each must be refused, not written with wrong checksums.
TEST(ArchiveChecksumsTest, whatIsOfAnotherFormIsRefused) {
  const Calls calls = callsOf(false, "weight");
  auto message = [&](const std::function<void(Calls &)> &damage) -> std::string {
    Calls other = calls;
    damage(other);
    llvm::Expected<std::string> archive = tryChecked(other);
    return archive ? "taken" : describe(archive.takeError()).message;
  };
  using testing::HasSubstr;
  const std::string all = joined(calls);
  EXPECT_THAT(message([&](Calls &c) { c = {all}; }), HasSubstr("data in calls of its own"));
  EXPECT_THAT(message([&](Calls &c) { c.pop_back(), c.pop_back(), c.pop_back(), c.pop_back(); }),
              HasSubstr("expected a directory of all records"));
  EXPECT_THAT(message([&](Calls &) {}), "taken");
  const auto data = std::find(calls.begin(), calls.end(), "weight");
  EXPECT_THAT(message([&](Calls &c) { c.insert(c.begin() + (data - calls.begin()), "more"); }),
              HasSubstr("a record's data in one call"));
  EXPECT_THAT(message([&](Calls &c) { c.resize(data - calls.begin() + 1); }),
              HasSubstr("expected all of the last record"));
  auto directory = [&](Calls &c) -> std::string & {
    return *std::find_if(c.begin(), c.end(),
                         [](const std::string &call) { return call.rfind("PK\1\2", 0) == 0; });
  };
  EXPECT_THAT(message([&](Calls &c) { ++directory(c)[20]; }),
              HasSubstr("the sizes of the records"));
  EXPECT_THAT(message([&](Calls &c) { ++directory(c)[46]; }), HasSubstr("records in their order"));
  EXPECT_THAT(message([&](Calls &c) { directory(c) += directory(c); }),
              HasSubstr("no more than all records"));
}

} // namespace
} // namespace pipec
