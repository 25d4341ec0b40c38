#include "compiler/emit/ArchiveChecksums.h"

#include "ir/support/Llvm.h"
#include "ir/support/Try.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/xxhash.h"

#include <fmt/format.h>

#include <cstring>
#include <libdeflate.h>
#include <memory>

namespace pipec {

namespace {

using namespace llvm::support::endian;

constexpr llvm::StringRef kLocalHeader("PK\3\4", 4), kDescriptor("PK\7\10", 4),
    kDirectoryEntry("PK\1\2", 4);
constexpr size_t kLocalHeaderSize = 30, kDirectoryEntrySize = 46, kDescriptorSize = 16,
                 kWideDescriptorSize = 24; // with sizes of 64 bits

llvm::Error require(bool holds, const char *what) {
  if (holds)
    return llvm::Error::success();
  return failf(ExitCode::Internal,
               "an archive of LibTorch's writer: expected {}, got something else", what);
}

uint32_t crcOf(uint32_t before, llvm::StringRef bytes) {
  return libdeflate_crc32(before, bytes.data(), bytes.size());
}

bool isWide(llvm::StringRef descriptor) { return descriptor.size() == kWideDescriptorSize; }

/// The size of the data before compression.
uint64_t sizeIn(llvm::StringRef descriptor) {
  return isWide(descriptor) ? read64le(descriptor.data() + 16) : read32le(descriptor.data() + 12);
}

} // namespace

llvm::Error ArchiveChecksums::put(llvm::StringRef bytes) {
  if (!inData_)
    return putHeader(bytes);
  const bool isComplete = TRY(isAllOfData(bytes));
  return isComplete ? putDescriptor(bytes) : putData(bytes);
}

/// Writes up to the data: a call never holds bytes of both.
llvm::Error ArchiveChecksums::putHeader(llvm::StringRef bytes) {
  pending_ += bytes;
  const llvm::StringRef header = pending_;
  if (header.size() < kLocalHeaderSize || !startsWith(header, kLocalHeader))
    return llvm::Error::success(); // more of it comes, or it is the directory
  const size_t name = read16le(header.data() + 26), extra = read16le(header.data() + 28);
  if (header.size() < kLocalHeaderSize + name + extra)
    return llvm::Error::success();
  TRY(require(header.size() == kLocalHeaderSize + name + extra,
              "a record's data in calls of its own"));
  Record record;
  record.name = header.substr(kLocalHeaderSize, name).str();
  record.compressed = read16le(header.data() + 8) != 0;
  records_.push_back(std::move(record));
  constexpr unsigned kDescriptorFollows = 8; // not for an empty record, which has no data either
  inData_ = (read16le(header.data() + 6) & kDescriptorFollows) != 0;
  take_(header);
  pending_.clear();
  return llvm::Error::success();
}

llvm::Error ArchiveChecksums::putData(llvm::StringRef bytes) {
  Record &record = records_.back();
  record.begun = true;
  record.stored += bytes.size();
  if (record.compressed) {
    pending_ += bytes;
    take_(bytes);
    return llvm::Error::success();
  }
  std::string id;
  if (endsWith(record.name, "/.data/serialization_id"))
    bytes = id = TRY(serializationId(bytes));
  record.crc = crcOf(record.crc, bytes);
  take_(bytes);
  return llvm::Error::success();
}

/// Whether the record's data ended before these bytes. The writer passes uncompressed data in one
/// call, and deflated data marks its own end, so no content of the data can be mistaken for its
/// end.
llvm::Expected<bool> ArchiveChecksums::isAllOfData(llvm::StringRef next) {
  Record &record = records_.back();
  if (!record.compressed)
    return record.begun;
  if (!startsWith(next, kDescriptor) || !(next.size() == kDescriptorSize || isWide(next)))
    return false; // incomplete data need not be inflated
  const std::optional<uint32_t> crc = TRY(crcOfDeflated(sizeIn(next)));
  record.crc = crc.value_or(0);
  return crc.has_value();
}

llvm::Error ArchiveChecksums::putDescriptor(llvm::StringRef bytes) {
  const Record &record = records_.back();
  TRY(require(startsWith(bytes, kDescriptor) && (bytes.size() == kDescriptorSize || isWide(bytes)),
              "a record's data in one call"));
  TRY(require(record.compressed || sizeIn(bytes) == record.stored, "as many bytes as were stored"));
  std::string descriptor = bytes.str();
  write32le(descriptor.data() + 4, record.crc);
  take_(descriptor);
  pending_.clear();
  inData_ = false;
  return llvm::Error::success();
}

/// Returns nullopt if the data so far is not a complete stream of this many bytes.
llvm::Expected<std::optional<uint32_t>> ArchiveChecksums::crcOfDeflated(uint64_t size) const {
  constexpr uint64_t kMostPerByte = 1032; // limit for the bytes that a byte of a deflated stream
                                          // represents
  if (size > kMostPerByte * pending_.size())
    return std::nullopt;
  const std::unique_ptr<libdeflate_decompressor, void (*)(libdeflate_decompressor *)> inflater(
      libdeflate_alloc_decompressor(), libdeflate_free_decompressor);
  if (!inflater)
    return makeError(ExitCode::OutOfMemory, "no memory to inflate a record");
  std::string text(size, '\0');
  size_t taken = 0;
  if (libdeflate_deflate_decompress_ex(inflater.get(), pending_.data(), pending_.size(),
                                       text.data(), text.size(), &taken,
                                       nullptr) != LIBDEFLATE_SUCCESS ||
      taken != pending_.size())
    return std::nullopt;
  return crcOf(0, text);
}

/// 20 digits for the names, 20 for the checksums. The writer does not know the checksums, so this
/// replaces its id; archives with other bytes get another id.
llvm::Expected<std::string> ArchiveChecksums::serializationId(llvm::StringRef written) const {
  constexpr size_t kDigits = 20;
  TRY(require(written.size() == 2 * kDigits, "an id of 40 digits"));
  std::string checksums;
  for (const Record &record : records_)
    checksums += fmt::format("{:08x}", record.crc);
  return fmt::format("{}{:020}", written.take_front(kDigits).str(), llvm::xxHash64(checksums));
}

llvm::Error ArchiveChecksums::finish() {
  TRY(require(!inData_, "all of the last record"));
  TRY(fillDirectory());
  take_(pending_);
  return llvm::Error::success();
}

llvm::Error ArchiveChecksums::fillDirectory() {
  size_t at = 0;
  for (const Record &record : records_) {
    const llvm::StringRef rest = llvm::StringRef(pending_).drop_front(at);
    TRY(require(rest.size() >= kDirectoryEntrySize && startsWith(rest, kDirectoryEntry),
                "a directory of all records"));
    const size_t name = read16le(rest.data() + 28), extra = read16le(rest.data() + 30),
                 comment = read16le(rest.data() + 32);
    constexpr uint32_t kElsewhere = UINT32_MAX;
    const uint32_t stored = read32le(rest.data() + 20);
    TRY(require(rest.substr(kDirectoryEntrySize, name) == record.name, "records in their order"));
    TRY(require(stored == kElsewhere || stored == record.stored, "the sizes of the records"));
    write32le(pending_.data() + at + 16, record.crc);
    at += kDirectoryEntrySize + name + extra + comment;
  }
  return require(!startsWith(llvm::StringRef(pending_).drop_front(at), kDirectoryEntry),
                 "no more than all records");
}

} // namespace pipec
