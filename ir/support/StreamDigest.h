// The digest of a file while somebody writes it.
#pragma once

#include "ir/support/PieceThread.h"
#include "ir/support/Sha256.h"
#include "ir/support/StableBytes.h"

#include <functional>
#include <memory>

namespace pipec {

/// sha256 of bytes that come in pieces, computed on another thread. A piece that is in `stable` is
/// not copied, and its own digest comes out of the same work.
class StreamDigest {
public:
  using Also = std::function<void(llvm::StringRef)>;
  /// `also` gets all bytes in order on that thread, just before they are hashed: what it reads is
  /// in the processor's cache then. What it throws finish() throws.
  explicit StreamDigest(std::shared_ptr<StableBytes> stable, Also also = {});

  /// Waits for the other thread only where the bytes are many and not stable, or it is far behind.
  void append(llvm::StringRef bytes);
  /// In hex, when all is hashed; throws what went wrong on the other thread. Once, and nothing
  /// after it.
  std::string finish();

private:
  void hash(llvm::StringRef bytes);

  std::shared_ptr<StableBytes> stable_;
  Also also_;
  Sha256 whole_;
  PieceThread thread_;
};

} // namespace pipec
