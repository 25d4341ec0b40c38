// Adds the CRC-32 of each record to an archive while LibTorch writes it. Hand-made because zip
// libraries write archives of their own, and models must have the form of LibTorch's.
//
//   local header | name, padding | data, perhaps compressed | descriptor: CRC, sizes     per record
//   directory: name, CRC, sizes, place of every record
#pragma once

#include "ir/support/Error.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace pipec {

/// Takes the output of a PyTorchStreamWriter without checksums, call by call, and passes it on with
/// checksums. The archive is the same as with the writer's own checksums, except for the text of
/// .data/serialization_id. The processor's CRC instructions are much faster, which saves seconds
/// for gigabytes of weights. Errors: Internal if the archive does not have that form; OutOfMemory.
class ArchiveChecksums {
public:
  using Take = std::function<void(llvm::StringRef)>;
  /// `take` gets data of uncompressed records in place, without a copy.
  explicit ArchiveChecksums(Take take) : take_(std::move(take)) {}

  llvm::Error put(llvm::StringRef bytes);
  /// Call it once, last, when the writer has written everything.
  llvm::Error finish();

private:
  struct Record {
    std::string name;
    uint32_t crc = 0;
    uint64_t stored = 0; // bytes of data as they are in the archive
    bool compressed = false, begun = false;
  };

  llvm::Error putHeader(llvm::StringRef bytes);
  llvm::Error putData(llvm::StringRef bytes);
  llvm::Expected<bool> isAllOfData(llvm::StringRef next);
  llvm::Error putDescriptor(llvm::StringRef bytes);
  llvm::Expected<std::optional<uint32_t>> crcOfDeflated(uint64_t size) const;
  llvm::Expected<std::string> serializationId(llvm::StringRef written) const;
  llvm::Error fillDirectory();

  Take take_;
  std::vector<Record> records_; // in order; the last one may be incomplete
  bool inData_ = false;
  std::string pending_; // of a header, of a record's compressed data, or of the directory
};

} // namespace pipec
