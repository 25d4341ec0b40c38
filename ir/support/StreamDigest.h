// The digest of a file, computed while the file is written.
#pragma once

#include "ir/support/PieceThread.h"
#include "ir/support/Sha256.h"
#include "ir/support/StableBytes.h"

#include <functional>
#include <memory>

namespace pipec {

/// sha256 of bytes that arrive in pieces, computed on another thread. A piece that is in `stable`
/// is not copied, and its own digest is computed at the same time, on a thread of its own.
class StreamDigest {
public:
  using Also = std::function<void(llvm::StringRef)>;
  /// `also` gets all bytes in order on that thread, just before they are hashed, so they enter the
  /// processor's cache once. finish() throws what it throws.
  explicit StreamDigest(std::shared_ptr<StableBytes> stable, Also also = {});

  /// Waits for the other thread only if the bytes are many and not stable, or if it is far behind.
  void append(llvm::StringRef bytes);
  /// The digest in hex, when all is hashed. Throws what went wrong on the other thread. Call it
  /// once, as the last call.
  std::string finish();

private:
  void hash(llvm::StringRef bytes);
  void addToWhole(llvm::StringRef bytes);

  std::shared_ptr<StableBytes> stable_;
  Also also_;
  Sha256 whole_;
  PieceThread thread_;
};

} // namespace pipec
