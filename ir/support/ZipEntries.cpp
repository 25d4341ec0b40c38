#include "ir/support/ZipEntries.h"

#include "ir/support/Llvm.h"
#include "llvm/Support/Endian.h"

#include <algorithm>
#include <optional>

namespace pipec {

namespace {

constexpr size_t kMostEntries = 100'000;
constexpr size_t kEndBytes = 22, kLocatorBytes = 20, kEntryBytes = 46, kHeaderBytes = 30;

/// Little-endian numbers of a record that lies in the file as a whole.
class Record {
public:
  /// Returns nullopt if it is not inside the file: a damaged archive may have any offset.
  static std::optional<Record> at(llvm::StringRef file, uint64_t offset, size_t bytes,
                                  llvm::StringRef mark) {
    if (offset > file.size() || file.size() - offset < bytes ||
        !startsWith(file.substr(offset), mark))
      return std::nullopt;
    return Record(file.data() + offset);
  }
  uint64_t two(size_t at) const { return llvm::support::endian::read16le(data_ + at); }
  uint64_t four(size_t at) const { return llvm::support::endian::read32le(data_ + at); }
  uint64_t eight(size_t at) const { return llvm::support::endian::read64le(data_ + at); }

private:
  explicit Record(const char *data) : data_(data) {}
  const char *data_;
};

/// The offset of the directory. The record that holds it is the last, except for a comment.
std::optional<uint64_t> directoryOf(llvm::StringRef file) {
  constexpr size_t kMostComment = 1 << 16;
  const size_t from = file.size() - std::min(file.size(), kEndBytes + kMostComment);
  const size_t end = file.rfind("PK\x05\x06");
  if (end == llvm::StringRef::npos || end < from)
    return std::nullopt;
  const std::optional<Record> last = Record::at(file, end, kEndBytes, "PK\x05\x06");
  if (!last)
    return std::nullopt;
  const std::optional<Record> locator =
      end < kLocatorBytes ? std::nullopt
                          : Record::at(file, end - kLocatorBytes, kLocatorBytes, "PK\x06\x07");
  if (!locator)
    return last->four(16);
  const std::optional<Record> wide = Record::at(file, locator->eight(8), 56, "PK\x06\x06");
  return wide ? std::optional(wide->eight(48)) : std::nullopt;
}

/// The bytes of an entry that is stored uncompressed and described with 32 bits.
llvm::StringRef storedBytes(llvm::StringRef file, const Record &entry) {
  const uint64_t size = entry.four(20), offset = entry.four(42);
  const std::optional<Record> header = Record::at(file, offset, kHeaderBytes, "PK\x03\x04");
  if (entry.two(10) != 0 || !header)
    return "";
  const uint64_t begin = offset + kHeaderBytes + header->two(26) + header->two(28);
  if (begin > file.size() || size > file.size() - begin)
    return "";
  return file.substr(begin, size);
}

} // namespace

std::vector<ZipEntry> zipEntries(llvm::StringRef file) {
  std::vector<ZipEntry> entries;
  uint64_t at = directoryOf(file).value_or(file.size());
  while (entries.size() < kMostEntries) {
    const std::optional<Record> entry = Record::at(file, at, kEntryBytes, "PK\x01\x02");
    if (!entry)
      break;
    const uint64_t nameBytes = entry->two(28);
    if (file.size() - at - kEntryBytes < nameBytes)
      break;
    entries.push_back({file.substr(at + kEntryBytes, nameBytes), storedBytes(file, *entry)});
    at += kEntryBytes + nameBytes + entry->two(30) + entry->two(32);
  }
  return entries;
}

} // namespace pipec
