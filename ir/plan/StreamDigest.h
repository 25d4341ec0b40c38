// The digest of a file while somebody writes it.
//
//   writer:       append  append  append ............ finish
//   other thread:         hash    hash   hash   hash   -> digest
#pragma once

#include "ir/plan/StableBytes.h"

#include <future>
#include <memory>

namespace pipec {

/// sha256 of bytes that come in pieces, computed on another thread. A piece that is in `stable` is
/// not copied, and its own digest comes out of the same work.
class StreamDigest {
public:
  explicit StreamDigest(std::shared_ptr<StableBytes> stable);
  StreamDigest(const StreamDigest &) = delete;
  StreamDigest &operator=(const StreamDigest &) = delete;
  /// Waits until what was appended is hashed.
  ~StreamDigest();

  /// Waits for the other thread only where the bytes are many and not stable.
  void append(llvm::StringRef bytes);
  /// In hex, when all is hashed. Once, and nothing after it.
  std::future<std::string> finish();

private:
  struct Queue;
  void end();

  std::shared_ptr<StableBytes> stable_;
  std::shared_ptr<Queue> queue_;
  std::future<std::string> digest_;
};

} // namespace pipec
