// Memory that stays as it is, its digests as they become known, and where copies of it are: the
// weights of a source.
#pragma once

#include "ir/support/FileId.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace pipec {

/// Any number of threads.
class StableBytes {
public:
  using Compute = llvm::function_ref<std::string()>; // sha256 in hex

  /// The bytes do not change while this lives; `owner`, which is kept, sees to it that they stay.
  void add(llvm::StringRef bytes, std::shared_ptr<const void> owner);
  /// Whether exactly these were added.
  bool has(llvm::StringRef bytes) const;

  /// Computes the digest of bytes that were added where nobody has begun to; false where somebody
  /// has, or where they were not added. Throws what `compute` throws: then nobody has begun.
  bool digestIfFirst(llvm::StringRef bytes, Compute compute);
  /// The digest of bytes that were added: computed, or waited for where somebody else has begun.
  /// When he fails this one begins.
  std::string digestOf(llvm::StringRef bytes, Compute compute);
  size_t totalBytes() const;

  /// Bytes that were added were written to that offset of a file, straight from their memory.
  void noteWritten(const FileId &file, uint64_t offset, llvm::StringRef bytes);
  bool anyWritten() const;
  /// Whether noteWritten said so.
  bool wereWritten(const FileId &file, uint64_t offset, llvm::StringRef bytes) const;

private:
  struct Entry {
    bool begun = false;
    std::string sha256; // empty: not known yet
  };
  using Place = std::pair<const char *, size_t>;
  static Place placeOf(llvm::StringRef bytes) { return {bytes.data(), bytes.size()}; }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Place, Entry> entries_; // only looked up
  std::map<std::pair<FileId, uint64_t>, Place> written_;
  size_t totalBytes_ = 0;
  std::vector<std::shared_ptr<const void>> owners_;
};

} // namespace pipec
