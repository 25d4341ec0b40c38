// The CRC-32 of each record of an archive, put in while LibTorch writes it.
//
//   local header | name, padding | data, perhaps compressed | descriptor: CRC, sizes     per record
//   directory: name, CRC, sizes, place of every record
#pragma once

#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace pipec {

/// Takes what a PyTorchStreamWriter without checksums writes, call by call, and hands it on with
/// them: the same archive as with its own, but for the text of .data/serialization_id. Computing
/// them with the processor's own instructions takes a small part of the time; of gigabytes of
/// weights that is seconds. Throws when the archive is not of that form.
class ArchiveChecksums {
public:
  using Take = std::function<void(llvm::StringRef)>;
  /// `take` gets data of records that are not compressed where they lie.
  explicit ArchiveChecksums(Take take) : take_(std::move(take)) {}

  void put(llvm::StringRef bytes);
  /// The writer has written everything. Once, and nothing after it.
  void finish();

private:
  struct Record {
    std::string name;
    uint32_t crc = 0;
    uint64_t stored = 0; // bytes of data as they are in the archive
    bool compressed = false, begun = false;
  };

  void putHeader(llvm::StringRef bytes);
  void putData(llvm::StringRef bytes);
  bool isAllOfData(llvm::StringRef next);
  void putDescriptor(llvm::StringRef bytes);
  std::optional<uint32_t> crcOfDeflated(uint64_t size) const;
  std::string serializationId(llvm::StringRef written) const;
  void fillDirectory();

  Take take_;
  std::vector<Record> records_; // in order; the last one may be under way
  bool inData_ = false;
  std::string pending_; // of a header, or the compressed data of a record, or the directory
};

} // namespace pipec
