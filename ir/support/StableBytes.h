// Memory that does not change (the weights of a source), its digests as they become known, and the
// places of its copies in files.
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

  /// Registers bytes that do not change while this object lives. It keeps `owner`, which owns them.
  void add(llvm::StringRef bytes, std::shared_ptr<const void> owner);
  /// Whether exactly these bytes were added.
  bool has(llvm::StringRef bytes) const;

  /// Computes the digest of added bytes. Returns false if another thread already owns the
  /// computation, or if the bytes were not added. If `compute` throws, the exception passes on and
  /// the computation has no owner again.
  bool digestIfFirst(llvm::StringRef bytes, Compute compute);
  /// The digest of added bytes. If another thread already owns the computation, waits for it. If
  /// that thread fails, the caller takes over.
  std::string digestOf(llvm::StringRef bytes, Compute compute);
  size_t totalBytes() const;

  /// Records that added bytes were written to that offset of a file, directly from their memory.
  void noteWritten(const FileId &file, uint64_t offset, llvm::StringRef bytes);
  bool anyWritten() const;
  /// Whether noteWritten recorded this.
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
  std::map<Place, Entry> entries_; // look-ups only
  std::map<std::pair<FileId, uint64_t>, Place> written_;
  size_t totalBytes_ = 0;
  std::vector<std::shared_ptr<const void>> owners_;
};

} // namespace pipec
