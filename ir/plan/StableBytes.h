// Memory that stays as it is, and its digests as they become known: the weights of a source.
#pragma once

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
  /// The bytes do not change while this lives; `owner`, which is kept, sees to it that they stay.
  void add(llvm::StringRef bytes, std::shared_ptr<const void> owner);
  /// Whether exactly these were added.
  bool has(llvm::StringRef bytes) const;

  /// True for the first one who asks of bytes that were added: their digest is his to set.
  bool claim(llvm::StringRef bytes);
  void setDigest(llvm::StringRef bytes, std::string sha256);
  /// sha256 in hex of bytes that somebody has claimed: waits until it is set.
  std::string digestOf(llvm::StringRef bytes) const;

private:
  struct Entry {
    bool claimed = false;
    std::string sha256; // empty: not set yet
  };
  using Place = std::pair<const char *, size_t>;
  static Place placeOf(llvm::StringRef bytes) { return {bytes.data(), bytes.size()}; }

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::map<Place, Entry> entries_; // only looked up
  std::vector<std::shared_ptr<const void>> owners_;
};

} // namespace pipec
